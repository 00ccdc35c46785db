//! The table of exported names and their versions.

/// One exported name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Symbol {
    /// The version node: `IBVERBS_1.1`.
    pub version: &'static str,
    /// The name.
    pub name: &'static str,
    /// Whether calls are carried out; otherwise they answer EOPNOTSUPP, or nothing.
    pub is_own: bool,
}

/// All of them, in the order of their versions.
pub fn all() -> impl Iterator<Item = Symbol> {
    include_str!("../symbols.txt").lines().filter_map(|line| {
        let mut words = line.split(' ');
        let version = words.next().filter(|word| *word != "#")?;
        Some(Symbol {
            version,
            name: words.next()?,
            is_own: words.next()? == "own",
        })
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_name_is_twice_in_a_version() {
        let mut all: Vec<_> = super::all().map(|row| (row.version, row.name)).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(count > 390, "only {count}");
    }
}
