//! Arrows between the published crates point down only.

use super::verdict;
use crate::metadata::Metadata;

/// Each published crate and those of the workspace that it may use.
const MAY_USE: [(&str, &[&str]); 5] = [
    ("uverbs-uapi", &[]),
    ("uverbs-driver", &["uverbs-uapi"]),
    ("uverbs-rxe", &["uverbs-driver", "uverbs-uapi"]),
    ("uverbs-mlx5", &["uverbs-driver", "uverbs-uapi"]),
    ("uverbs", &["uverbs-driver", "uverbs-mlx5", "uverbs-rxe"]),
];

/// Compares the edges between the crates of the workspace with those that the design allows.
pub(crate) fn layers() -> anyhow::Result<()> {
    let metadata = Metadata::read()?;
    let mut wrong = Vec::new();
    let mut edges = 0;
    for package in metadata.shipped() {
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == package.name) else {
            wrong.push(format!("{} has no place among the layers", package.name));
            continue;
        };
        for dependency in metadata.dependencies(&package.id) {
            let ours = metadata
                .member(&dependency.name)
                .is_some_and(|member| member.id == dependency.id);
            edges += usize::from(ours);
            if ours && !allowed.contains(&dependency.name.as_str()) {
                wrong.push(format!("{} uses {}", package.name, dependency.name));
            }
        }
    }
    verdict("edges that the design does not have", &wrong)?;
    println!("layers: {edges} edges between the published crates, all pointing down");
    Ok(())
}
