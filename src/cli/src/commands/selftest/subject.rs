//! What is checked: an opened device, and one of its ports.

use std::sync::Arc;

use uverbs::attr::PortAttr;
use uverbs::kernel::CommandPath;
use uverbs::mlx5::Adapter;
use uverbs::recorder::Sink;
use uverbs::{Context, OpenOptions};

use super::check::{Outcome, Trouble};
use super::facts::Facts;
use super::peer::Peer;

/// The device that all checks share. They create everything else themselves.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) context: Context,
    /// The port that messages go through, from 1.
    pub(super) port: u8,
    /// The command path, unless a check chooses another.
    pub(super) path: CommandPath,
    pub(super) recorder: Option<Arc<dyn Sink>>,
    pub(super) facts: Arc<Facts>,
    /// Another host that takes part.
    pub(super) peer: Option<Peer>,
}

impl Subject {
    /// The same port of a device that was opened once more.
    pub(super) fn through(&self, context: Context, path: CommandPath) -> Self {
        Self {
            context,
            port: self.port,
            path,
            recorder: None,
            facts: Arc::clone(&self.facts),
            peer: self.peer.clone(),
        }
    }

    /// Opens the device once more.
    pub(super) fn reopen(&self, options: OpenOptions) -> Outcome<Context> {
        let options = match &self.recorder {
            Some(sink) => options.record(Arc::clone(sink)),
            None => options,
        };
        let node = self.context.info().path.as_ref();
        let node = node.ok_or_else(|| Trouble::failed("it has no node in /dev/infiniband"))?;
        Ok(options.open_path(node)?)
    }

    /// The device with what only mlx5 devices have.
    pub(super) fn mlx5(&self) -> Outcome<Adapter> {
        let adapter = self.context.mlx5();
        adapter.map_err(|_| Trouble::unsupported("mlx5 devices only"))
    }

    /// The accepted entries of a list: the first on adapters, all of them on rxe, which reports
    /// some failures differently.
    pub(super) fn right<'a, T>(&self, list: &'a [T]) -> &'a [T] {
        match list.get(..1) {
            Some(first) if self.context.mlx5().is_ok() => first,
            _ => list,
        }
    }

    pub(super) fn port_attr(&self) -> Outcome<PortAttr> {
        Ok(self.context.query_port(self.port)?)
    }

    /// How many bytes a packet carries.
    pub(super) fn mtu(&self) -> Outcome<usize> {
        let bytes = self.port_attr()?.active_mtu.bytes().unwrap_or(1024);
        Ok(bytes as usize)
    }
}
