//! The table of exported names and their versions.

pub use uverbs_compat_base::symbols::Symbol;

/// All of them, in the order of their versions.
pub fn all() -> impl Iterator<Item = Symbol> {
    uverbs_compat_base::symbols::of(include_str!("../symbols.txt"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_name_is_twice_in_the_table() {
        let mut all: Vec<_> = super::all().map(|row| row.name).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(count > 40, "only {count}");
    }
}
