//! Names in the form that people read.

use std::fmt;

/// A name from the kernel's headers, or a number for which they have no name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Name {
    full: Option<&'static str>,
    raw: u32,
    /// Words that the context already says.
    context: Vec<&'static str>,
}

/// Prefixes shared by all names of a kind.
const PREFIXES: [&str; 10] = [
    "UVERBS_OBJECT_",
    "UVERBS_METHOD_",
    "UVERBS_ATTR_",
    "IB_USER_VERBS_EX_CMD_",
    "IB_USER_VERBS_CMD_",
    "RDMA_USER_CM_CMD_",
    "MLX5_IB_OBJECT_",
    "MLX5_IB_METHOD_",
    "MLX5_IB_ATTR_",
    "MLX5_IB_",
];

impl Name {
    pub(super) fn new(full: Option<&'static str>, raw: u32) -> Self {
        Self {
            full,
            raw,
            context: Vec::new(),
        }
    }

    /// Omits from the short form what `outer` already says.
    pub(super) fn within(mut self, outer: &[&Self]) -> Self {
        self.context = outer
            .iter()
            .filter_map(|name| name.full)
            .flat_map(|full| bare(full).split('_'))
            .collect();
        self
    }

    /// The name in the kernel's headers.
    pub fn full(&self) -> Option<&'static str> {
        self.full
    }

    /// The number.
    pub fn raw(&self) -> u32 {
        self.raw
    }
}

fn bare(full: &'static str) -> &'static str {
    PREFIXES
        .iter()
        .find_map(|prefix| full.strip_prefix(prefix))
        .unwrap_or(full)
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(full) = self.full else {
            return write!(f, "{:#x}", self.raw);
        };
        if full.starts_with("IB_USER_VERBS_EX_CMD_") {
            f.write_str("EX_")?;
        }
        let mut rest = bare(full);
        let mut said = self.context.clone();
        while let Some((word, later)) = rest.split_once('_') {
            let Some(at) = said.iter().position(|known| *known == word) else {
                break;
            };
            said.remove(at);
            rest = later;
        }
        if self.context.is_empty() {
            f.write_str(rest)
        } else {
            write!(f, "{}", rest.to_lowercase())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_does_not_repeat_its_method() {
        let object = Name::new(Some("UVERBS_OBJECT_CQ"), 3);
        let method = Name::new(Some("UVERBS_METHOD_CQ_CREATE"), 0);
        let attribute = |name| {
            Name::new(Some(name), 0)
                .within(&[&object, &method])
                .to_string()
        };
        assert_eq!(attribute("UVERBS_ATTR_CREATE_CQ_RESP_CQE"), "resp_cqe");
        assert_eq!(attribute("UVERBS_ATTR_CREATE_CQ_CQE"), "cqe");
        assert_eq!(attribute("UVERBS_ATTR_UHW_OUT"), "uhw_out");
        let port = Name::new(Some("UVERBS_METHOD_QUERY_PORT"), 2);
        let number = Name::new(Some("UVERBS_ATTR_QUERY_PORT_PORT_NUM"), 0);
        assert_eq!(number.within(&[&port]).to_string(), "port_num");
        assert_eq!(Name::new(None, 0x1234).to_string(), "0x1234");
    }
}
