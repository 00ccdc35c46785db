//! `cargo xtask measure`: the code in numbers, of the working tree or of any commit.

mod code;
mod rooms;
mod tree;

use clap::Args;
use code::Code;
use rooms::Rooms;
use std::process::ExitCode;
use tree::Tree;

/// Count files, lines, functions, unsafe blocks, code that depends on a vendor, and the rooms of
/// mlx5
///
/// Reads Rust files of the working tree, or of a commit, and prints tables in Markdown;
/// docs/measures.md has them for two commits, side by side. Lines are all lines, those of tests and
/// documentation included; a function's length is from its name to its last brace.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Count a commit instead of the working tree.
    #[arg(long, value_name = "REVISION")]
    at: Option<String>,
}

/// A part of the repository: its name, and the folders that it has had, each without those below
/// it that are other parts.
const GROUPS: [(&str, &[&str]); 12] = [
    ("uapi", &["uapi/src"]),
    (
        "core (was driver)",
        &["providers/core/src", "providers/driver/src"],
    ),
    (
        "fake kernel",
        &["tests/models/kernel/src", "providers/driver/src/sys/fake"],
    ),
    ("mlx5", &["providers/mlx5/src"]),
    ("rxe", &["providers/rxe/src"]),
    ("any", &["providers/any/src"]),
    ("facade", &["src"]),
    ("command-line tool", &["src/cli", "src/bin"]),
    (
        "library for C",
        &["src/compat", "src/compat-base", "src/compat-cm"],
    ),
    (
        "software ConnectX",
        &["tests/models/connectx/src", "tests/connectx/src"],
    ),
    ("testbed", &["tests/tools/testbed/src", "tests/testbed/src"]),
    ("xtask", &["tests/tools/xtask/src", "tests/xtask/src"]),
];

/// Where a request is handed to the provider of its device.
const DISPATCH: [&str; 2] = ["providers/any/src", "src/provider.rs"];

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let tree = Tree::read(options.at.as_deref())?;
    println!(
        "| part | files | lines | longest file | functions | longest (99 of 100) | `unsafe {{}}` |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (name, _) in GROUPS {
        let code = Code::of(tree.files().filter(|(path, _)| group(path) == Some(name)))?;
        if code.files == 0 {
            println!("| {name} | – | | | | | |");
            continue;
        }
        println!(
            "| {name} | {} | {} | {} | {} | {} ({}) | {} |",
            code.files,
            code.lines,
            code.longest_file,
            code.functions.len(),
            code.longest(100),
            code.longest(99),
            code.unsafe_blocks
        );
    }
    vendors(&tree)?;
    let rooms = Rooms::of(&tree)?;
    println!(
        "\nmlx5: {} rooms, {} arrows between them, {} of them in circles{}",
        rooms.count(),
        rooms.arrows(),
        rooms.in_circles(),
        rooms.circles()
    );
    Ok(ExitCode::SUCCESS)
}

/// The part that a file belongs to: that of the longest folder that it is in.
fn group(path: &str) -> Option<&'static str> {
    let folders = GROUPS
        .iter()
        .flat_map(|(name, folders)| folders.iter().map(move |folder| (*name, *folder)));
    let its = folders.filter(|(_, folder)| is_in(path, folder));
    its.max_by_key(|(_, folder)| folder.len())
        .map(|(name, _)| name)
}

fn is_in(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Code that knows which vendors there are.
fn vendors(tree: &Tree) -> anyhow::Result<()> {
    let dispatch = tree
        .files()
        .filter(|(path, _)| DISPATCH.iter().any(|at| is_in(path, at)));
    let dispatch = Code::of(dispatch)?;
    let generic = tree.files().filter(|(path, _)| {
        let facade = matches!(group(path), Some("facade" | "core (was driver)"));
        facade && !path.starts_with("src/mlx5") && !DISPATCH.contains(path)
    });
    let mut naming = 0;
    for (_, text) in generic {
        naming += usize::from(code::names_a_provider(text)?);
    }
    println!("\n| | |\n|---|---|");
    println!(
        "| lines of the dispatch between providers | {} |",
        dispatch.lines
    );
    println!(
        "| its `match` expressions, macros included | {} |",
        dispatch.matches
    );
    println!("| its mentions of a vendor | {} |", dispatch.vendors);
    println!(
        "| other generic files that name a provider's crate or the vendor's room | {naming} |"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_of_the_part_with_the_longest_folder() {
        assert_eq!(group("src/lib.rs"), Some("facade"));
        assert_eq!(group("src/cli/main.rs"), Some("command-line tool"));
        assert_eq!(
            group("providers/driver/src/sys/fake/mod.rs"),
            Some("fake kernel")
        );
        assert_eq!(group("srcs/lib.rs"), None);
    }
}
