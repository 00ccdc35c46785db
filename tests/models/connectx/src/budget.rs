//! Limits on how much of the host's memory a guest can make the model use.

use crate::device::Device;
use crate::objects::Translation;

/// Page and key list entries over all objects of a function; 8 to 24 bytes each.
pub(crate) const MAX_ENTRIES: usize = 1 << 24;
/// Flow table entries over all tables of a function; each takes somewhat more than a kilobyte.
pub(crate) const MAX_FLOWS: usize = 1 << 14;
/// Commands with more input than this are checked against the budget.
pub(crate) const LARGE: usize = 1 << 10;

impl Device {
    /// Entries of page and key lists that the function's objects hold.
    pub(crate) fn list_entries(&self) -> usize {
        let keys = self.mkeys.iter().map(|(_, key)| match &key.translation {
            Translation::Pages(pages) => pages.len(),
            Translation::Keys(keys) => keys.len(),
            Translation::Umem(umem, _) => umem.entries(),
            Translation::Physical | Translation::Device(_) => 0,
        });
        let buffers = [
            self.eqs
                .iter()
                .map(|(_, queue)| queue.buffer.pages().len())
                .sum::<usize>(),
            self.cqs
                .iter()
                .map(|(_, queue)| queue.buffer.pages().len())
                .sum(),
            self.qps
                .iter()
                .map(|(_, queue)| queue.buffer.pages().len())
                .sum(),
            self.shared
                .iter()
                .map(|(_, queue)| queue.buffer.pages().len())
                .sum(),
            self.sqs
                .iter()
                .map(|(_, queue)| queue.buffer.pages().len())
                .sum(),
            self.rqs
                .iter()
                .map(|(_, queue)| queue.buffer.pages().len())
                .sum(),
            self.umems.iter().map(|(_, umem)| umem.entries()).sum(),
        ];
        keys.sum::<usize>() + buffers.iter().sum::<usize>()
    }

    /// Flow table entries over all tables.
    pub(crate) fn flow_entries(&self) -> usize {
        self.flows
            .iter()
            .map(|(_, table)| table.entries.len() + table.groups.len())
            .sum()
    }
}
