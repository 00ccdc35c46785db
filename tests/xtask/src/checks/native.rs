//! No C is built into or linked with what others get.

use super::verdict;
use crate::metadata::Metadata;

/// Crates that build, bind or look for C.
const BUILDERS: [&str; 8] = [
    "autotools",
    "bindgen",
    "cc",
    "cmake",
    "cxx-build",
    "pkg-config",
    "system-deps",
    "vcpkg",
];

/// Looks through everything that is built with the published crates, build scripts too.
pub(crate) fn native() -> anyhow::Result<()> {
    let metadata = Metadata::read()?;
    let wrong = wrong(&metadata);
    verdict("C among the dependencies of published crates", &wrong)?;
    let looked_at: usize = metadata
        .shipped()
        .map(|shipped| metadata.closure(shipped).len())
        .sum();
    println!(
        "native: {looked_at} dependencies of {} crates, none links or builds C",
        metadata.shipped().count()
    );
    Ok(())
}

fn wrong(metadata: &Metadata) -> Vec<String> {
    let mut wrong = Vec::new();
    for shipped in metadata.shipped() {
        for (by, dependency) in metadata.closure(shipped) {
            if let Some(library) = &dependency.links {
                wrong.push(format!(
                    "{}: {} (needed by {}) links {library}",
                    shipped.name, dependency.name, by.name
                ));
            }
            if BUILDERS.contains(&dependency.name.as_str()) {
                wrong.push(format!(
                    "{}: {} is needed by {}",
                    shipped.name, dependency.name, by.name
                ));
            }
        }
    }
    wrong.sort();
    wrong
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::wrong;
    use crate::metadata::Metadata;
    use serde_json::{Value, json};

    fn package(id: &str, links: Option<&str>, publish: Option<&[&str]>) -> Value {
        json!({"id": id, "name": id, "version": "1.0.0", "license": "MIT", "links": links, "publish": publish, "targets": []})
    }

    fn edge(to: &str, kind: Option<&str>) -> Value {
        json!({"pkg": to, "dep_kinds": [{"kind": kind}]})
    }

    #[test]
    fn c_is_found_however_deep_and_tests_may_use_it() {
        let metadata: Metadata = serde_json::from_value(json!({
            "packages": [
                package("shipped", None, None),
                package("middle", None, None),
                package("cc", None, None),
                package("z-sys", Some("z"), None),
                package("pkg-config", None, None),
                package("tool", None, Some(&[])),
            ],
            "workspace_members": ["shipped", "tool"],
            "resolve": {"nodes": [
                {"id": "shipped", "deps": [edge("middle", None), edge("pkg-config", Some("dev"))]},
                {"id": "middle", "deps": [edge("z-sys", None)]},
                {"id": "z-sys", "deps": [edge("cc", Some("build"))]},
                {"id": "tool", "deps": [edge("pkg-config", None)]},
            ]},
        }))
        .unwrap();
        let expected = [
            "shipped: cc is needed by z-sys",
            "shipped: z-sys (needed by middle) links z",
        ];
        assert_eq!(wrong(&metadata), expected);
    }
}
