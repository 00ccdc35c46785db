//! The list of intended differences.

use anyhow::bail;

use super::Difference;

/// Intended differences: command, field (`call` for a whole call), theirs, ours, and why.
///
/// A `*` at the end of a word matches anything.
#[derive(Debug, Default)]
pub struct Reasons(Vec<Reason>);

#[derive(Debug)]
struct Reason {
    words: [String; 4],
    /// Number of differences that it covered.
    count: usize,
}

impl Reason {
    fn fits(&self, difference: &Difference) -> bool {
        let field = if difference.field.is_empty() {
            "call"
        } else {
            &difference.field
        };
        let said = [
            &difference.command,
            field,
            &difference.theirs,
            &difference.ours,
        ];
        self.words.iter().zip(said).all(|(word, said)| {
            word.strip_suffix('*')
                .map_or(word == said, |begin| said.starts_with(begin))
        })
    }
}

impl Reasons {
    /// Reads the list.
    ///
    /// # Errors
    /// A line without a reason.
    pub fn read(text: &str) -> anyhow::Result<Self> {
        let mut reasons = Vec::new();
        for line in text.lines() {
            let mut words = line.split_whitespace().map(str::to_owned);
            let Some(first) = words.next().filter(|word| !word.starts_with('#')) else {
                continue;
            };
            let (Some(field), Some(theirs), Some(ours), Some(_why)) =
                (words.next(), words.next(), words.next(), words.next())
            else {
                bail!("no reason: {line}");
            };
            reasons.push(Reason {
                words: [first, field, theirs, ours],
                count: 0,
            });
        }
        Ok(Self(reasons))
    }

    /// Whether a difference is intended.
    pub fn covers(&mut self, difference: &Difference) -> bool {
        let mut covered = false;
        for reason in &mut self.0 {
            let fits = reason.fits(difference);
            reason.count += usize::from(fits);
            covered |= fits;
        }
        covered
    }

    /// The same, without counting it.
    #[must_use]
    pub fn fit(&self, difference: &Difference) -> bool {
        self.0.iter().any(|reason| reason.fits(difference))
    }

    /// Entries that covered nothing.
    #[must_use]
    pub fn unused(&self) -> Vec<String> {
        let unused = self.0.iter().filter(|reason| reason.count == 0);
        unused.map(|reason| reason.words.join(" ")).collect()
    }

    /// How many differences each entry covered.
    #[must_use]
    pub fn counts(&self) -> Vec<String> {
        let lines = self.0.iter();
        lines
            .map(|reason| format!("{:5} {}", reason.count, reason.words.join(" ")))
            .collect()
    }
}
