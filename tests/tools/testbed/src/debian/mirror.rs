//! Where Debian's packages come from: the mirror that the system itself is configured with.

use crate::Error;
use crate::host::{Tool, capture, ensure};
use std::fs;
use std::process::Command;

/// Addresses of Debian's archives.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Mirror {
    pub(crate) main: String,
    /// Security updates; known only on Debian.
    pub(crate) security: Option<String>,
}

/// Finds the mirror: on Debian the system's own, elsewhere debootstrap's default.
pub(crate) fn find() -> Result<Mirror, Error> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    if let Some(codename) = codename_of_debian(&release) {
        let targets = capture(Command::new("apt-get").args([
            "indextargets",
            "--format",
            "$(CREATED_BY) $(COMPONENT) $(RELEASE) $(REPO_URI)",
        ]))?;
        if let Some(mirror) = from_targets(&targets, &codename) {
            return Ok(mirror);
        }
    }
    ensure(&[Tool::Debootstrap])?;
    let scripts = [
        "/usr/share/debootstrap/scripts/sid",
        "/usr/share/debootstrap/scripts/debian-common",
        "/usr/sbin/debootstrap",
    ];
    let texts = scripts
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok());
    let main = texts
        .into_iter()
        .find_map(|text| default_of_debootstrap(&text));
    main.map(|main| Mirror {
        main,
        security: None,
    })
    .ok_or_else(|| {
        Error::packages(
            "looking for Debian's mirror",
            "debootstrap's script names none",
        )
    })
}

fn codename_of_debian(release: &str) -> Option<String> {
    let field = |name: &str| {
        let line = release
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
        Some(line.trim_matches('"').to_owned())
    };
    (field("ID")? == "debian").then(|| field("VERSION_CODENAME").unwrap_or_else(|| "sid".into()))
}

fn from_targets(targets: &str, codename: &str) -> Option<Mirror> {
    let names = [
        codename,
        "stable",
        "oldstable",
        "testing",
        "unstable",
        "sid",
    ];
    let find = |suffix: &str| {
        targets.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            let (created_by, component, release, uri) =
                (words.next()?, words.next()?, words.next()?, words.next()?);
            let release = release.strip_suffix(suffix)?;
            (created_by == "Packages" && component == "main" && names.contains(&release))
                .then(|| uri.to_owned())
        })
    };
    Some(Mirror {
        main: find("")?,
        security: find("-security"),
    })
}

fn default_of_debootstrap(script: &str) -> Option<String> {
    script.lines().find_map(|line| {
        let line = line.trim();
        let value = line
            .strip_prefix("default_mirror ")
            .or_else(|| line.strip_prefix("DEF_MIRROR="))?;
        let value = value.trim().trim_matches('"');
        value.starts_with("http").then(|| value.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::{codename_of_debian, default_of_debootstrap, from_targets};

    #[test]
    fn the_system_s_own_mirror_is_taken() {
        let targets = "Packages main nodistro http://other.example/\nPackages main trixie http://m.example/debian/\n\
                       Packages main trixie-security http://m.example/debian-security/\n";
        let mirror = from_targets(targets, "trixie");
        assert_eq!(
            mirror.as_ref().map(|mirror| mirror.main.as_str()),
            Some("http://m.example/debian/")
        );
        assert_eq!(
            mirror.and_then(|mirror| mirror.security).as_deref(),
            Some("http://m.example/debian-security/")
        );
        assert_eq!(
            from_targets("Packages main nodistro http://other.example/\n", "trixie"),
            None
        );
    }

    #[test]
    fn derivatives_are_not_taken_for_debian() {
        assert_eq!(
            codename_of_debian("ID=debian\nVERSION_CODENAME=bookworm\n").as_deref(),
            Some("bookworm")
        );
        assert_eq!(
            codename_of_debian("ID=ubuntu\nVERSION_CODENAME=noble\nID_LIKE=debian\n"),
            None
        );
    }

    #[test]
    fn both_forms_of_the_default_mirror_are_read() {
        assert_eq!(
            default_of_debootstrap("default_mirror http://x.example/debian\n").as_deref(),
            Some("http://x.example/debian")
        );
        assert_eq!(
            default_of_debootstrap(" DEF_MIRROR=\"https://y.example/debian\"").as_deref(),
            Some("https://y.example/debian")
        );
        assert_eq!(default_of_debootstrap("default_mirror $X"), None);
    }
}
