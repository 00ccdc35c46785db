//! Who may name whom inside a crate.

use layering::sources;

/// Modules of the driver layer that stand on each other, each with those above it.
const ABOVE: [(&str, &[&str]); 3] = [
    ("kind", &["cmd", "object", "contract"]),
    ("cmd", &["object", "contract"]),
    ("object", &["cmd", "contract"]),
];

/// Whether a file is of the module, and not of its tests.
fn is_of(path: &str, module: &str) -> bool {
    let inside = path.trim_start_matches("providers/core/src/");
    let of = inside == format!("{module}.rs") || inside.starts_with(&format!("{module}/"));
    of && !inside.contains("/tests")
}

/// Commands know nothing of the objects whose handles they name, and objects nothing of commands: both know kinds.
#[test]
fn commands_and_objects_do_not_name_each_other() {
    let driver = sources(&["providers/core/src"]);
    let mut wrong = Vec::new();
    for (module, above) in ABOVE {
        let files: Vec<_> = driver
            .iter()
            .filter(|source| is_of(&source.path, module))
            .collect();
        assert!(!files.is_empty(), "{module} is nowhere");
        for source in files {
            for (number, line) in source.code() {
                for other in above {
                    if line.contains(&format!("crate::{other}")) {
                        wrong.push(format!("{}:{number}: {line}", source.path));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
