//! Tables of exported names and their versions: `symbols.txt` of each library.

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

/// The names of a table, in the order of their versions.
pub fn of(table: &'static str) -> impl Iterator<Item = Symbol> {
    table.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let version = words.next().filter(|word| *word != "#")?;
        Some(Symbol {
            version,
            name: words.next()?,
            is_own: words.next()? == "own",
        })
    })
}
