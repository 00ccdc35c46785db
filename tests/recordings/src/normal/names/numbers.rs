//! The device's object numbers.

use std::collections::BTreeMap;

/// Suffixes of names of fields in which the kernel returns a new object's number, and the kind of
/// object.
const GIVING: [(&str, &str); 15] = [
    ("QP_NUM", "qp"),
    ("qpn", "qp"),
    ("pdn", "pd"),
    ("cqn", "cq"),
    ("srqn", "srq"),
    ("tirn", "tir"),
    ("tisn", "tis"),
    ("rqn", "rq"),
    ("sqn", "sq"),
    ("WQ_NUM", "wq"),
    ("ind_tbl_num", "table"),
    ("UAR_OBJ_ALLOC_PAGE_ID", "uar"),
    ("UMEM_REG_OUT_ID", "umem"),
    (".element", "element"),
    (".counter", "counter"),
];

/// Others, which only refer to numbers.
const REFERRING: [(&str, &str); 5] = [
    ("qp_num", "qp"),
    ("uar_page_index", "uar"),
    ("bfreg_index", "uar"),
    (".uar", "uar"),
    (".umem", "umem"),
];

/// The objects that numbers of a kind refer to.
#[derive(Debug, Default)]
pub(super) struct Numbers(BTreeMap<(&'static str, u64), String>);

/// The kind of object that a field numbers: the longest name that matches.
fn kind<'a>(
    names: impl Iterator<Item = &'a (&'static str, &'static str)>,
    field: &str,
) -> Option<&'static str> {
    let fitting = names.filter(|(end, _)| field.ends_with(end));
    let longest = fitting.max_by_key(|(end, _)| end.len())?;
    Some(longest.1)
}

impl Numbers {
    /// A field that the kernel wrote when it created an object; its number may be one that another
    /// object had before.
    pub(super) fn learn(&mut self, field: &str, number: u64, object: &str) {
        if let Some(kind) = kind(GIVING.iter(), field) {
            self.0.insert((kind, number), format!("{object}.number"));
        }
    }

    /// The object that has this number.
    pub(super) fn find(&self, field: &str, number: u64) -> Option<String> {
        let kind = kind(GIVING.iter().chain(&REFERRING), field)?;
        self.0.get(&(kind, number)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_their_kind() {
        let mut numbers = Numbers::default();
        numbers.learn("uhw.srqn", 3, "SRQ1");
        numbers.learn("uhw.rqn", 3, "QP1");
        numbers.learn("MLX5_UAR_OBJ_ALLOC_PAGE_ID", 3, "MLX5_UAR1");
        numbers.learn("uhw.bfreg_index", 4, "QP1");
        let find = |field, number| numbers.find(field, number);
        assert_eq!(find("uhw.srqn", 3).as_deref(), Some("SRQ1.number"));
        assert_eq!(find("x.uar", 3).as_deref(), Some("MLX5_UAR1.number"));
        assert_eq!(find("uhw.bfreg_index", 4), None);
        assert_eq!(find("length", 3), None);
    }
}
