//! A machine that runs one test after another.

use super::leftovers::Inventory;
use crate::{Command, Error, Guest, Output};

/// The line by which a test announces that the machine cannot be used any more.
const USED_UP: &str = "this machine is used up";

/// A machine between tests.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) guest: Guest,
    /// What there was on it after the last test.
    pub(super) inventory: Option<Inventory>,
}

impl Running {
    /// Runs a test. Returns its output, what it left behind, and whether the machine is used up.
    pub(super) fn run(&mut self, test: Command) -> Result<(Output, Vec<String>, bool), Error> {
        if let Some(inventory) = &mut self.inventory {
            inventory.forgive(&self.guest)?;
        }
        let output = self.guest.run(test)?;
        let used_up = output.stdout_text().contains(USED_UP);
        let mut leftovers = Vec::new();
        if let Some(before) = &mut self.inventory
            && !used_up
        {
            let after = before.after(&self.guest)?;
            leftovers = before.leftovers(&after, &output);
            *before = after;
        }
        Ok((output, leftovers, used_up))
    }
}
