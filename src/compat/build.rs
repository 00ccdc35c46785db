//! Makes the functions of names that have no function of their own, from `symbols.txt`, and the
//! names that static programs refer to, from `static.txt`.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

/// The node of names whose version is the default, and the node with the same names for newer
/// programs.
const PRIVATE: [&str; 2] = ["IBVERBS_PRIVATE_34", "IBVERBS_PRIVATE_65"];

fn main() {
    println!("cargo::rerun-if-changed=symbols.txt");
    println!("cargo::rerun-if-changed=static.txt");
    let table = include_str!("symbols.txt");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(' ').collect())
        .collect();
    let in_both = |name: &str| {
        let times = rows.iter().filter(|row| row.get(1) == Some(&name));
        times.count() > 1
    };
    let mut text = String::new();
    for row in &rows {
        let &[version, name, kind] = row.as_slice() else {
            continue;
        };
        let first = version != PRIVATE[1] || !in_both(name);
        let plain = format!("#[unsafe(export_name = \"{name}\")]");
        let exports = if !in_both(name) {
            plain
        } else if first {
            format!(
                "#[cfg_attr(feature = \"shared\", unsafe(export_name = \"{name}@@{version}\"))]\n\
                 #[cfg_attr(not(feature = \"shared\"), unsafe(export_name = \"{name}\"))]"
            )
        } else {
            format!("#[cfg(feature = \"shared\")]\n#[unsafe(export_name = \"{name}@{version}\")]")
        };
        let base = name.trim_start_matches('_');
        let own = format!("f_{base}_{}", version.replace('.', "_").to_lowercase());
        let body = match kind {
            "int" => format!("extern \"C\" fn {own}() -> c_int {{ unsupported() }}"),
            "null" => format!("extern \"C\" fn {own}() -> *mut c_void {{ unsupported_object() }}"),
            "none" => format!("extern \"C\" fn {own}() -> c_int {{ 0 }}"),
            "data" => format!(
                "static {}: AtomicU8 = AtomicU8::new(0);",
                own.to_uppercase()
            ),
            _ => continue,
        };
        let _ = writeln!(text, "{exports}\n{body}");
    }
    let providers = include_str!("static.txt").lines();
    for name in providers.filter(|name| !name.starts_with('#')) {
        let own = format!("PROVIDER_{}", name.to_uppercase());
        let _ = writeln!(
            text,
            "#[cfg(not(feature = \"shared\"))]\n\
             #[unsafe(export_name = \"verbs_provider_{name}\")]\n\
             static {own}: AtomicU8 = AtomicU8::new(0);"
        );
    }
    let folder = env::var_os("OUT_DIR").unwrap_or_default();
    let written = fs::write(Path::new(&folder).join("stubs.rs"), text);
    if let Err(error) = written {
        println!("cargo::error=stubs.rs cannot be written: {error}");
    }
}
