//! How errors name their facts.

use layering::shipped;

/// The calls that add a fact whose name is written there, and what precedes that name.
const WAYS: [(&str, &str); 3] = [(".fact(", ""), ("Error::limit(", ","), ("at_most(", ",")];

/// The name in the call that `arguments` follow, if one is written there: what precedes it is not a
/// string.
fn name<'a>(arguments: &'a str, before: &str) -> Option<&'a str> {
    let rest = match before {
        "" => arguments,
        separator => arguments.split_once(separator)?.1,
    };
    let (name, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
    Some(name)
}

fn is_identifier(name: &str) -> bool {
    let rest =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    name.starts_with(|first: char| first.is_ascii_lowercase()) && name.chars().all(rest)
}

/// Programs look facts up by name, and people search for them; sentences belong in hints.
#[test]
fn names_of_facts_are_identifiers() {
    let (mut seen, mut wrong) = (0, Vec::new());
    // The command-line tool prints lines of its own that way.
    for source in shipped()
        .iter()
        .filter(|source| !source.path.starts_with("src/cli/"))
    {
        for (way, before) in WAYS {
            for (at, _) in source.text.match_indices(way) {
                let arguments = source.text.get(at + way.len()..).unwrap_or("");
                let Some(name) = name(arguments, before) else {
                    continue;
                };
                seen += 1;
                if !is_identifier(name) {
                    wrong.push(format!("{}: {name:?}", source.path));
                }
            }
        }
    }
    assert!(seen > 250, "only {seen} facts were found");
    assert!(wrong.is_empty(), "no identifiers: {wrong:#?}");
}
