//! One function behind the vfio-user protocol.

use std::fs::File;
use std::io::Error;
use std::sync::Arc;

use vfio_bindings::bindings::vfio::{
    VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_MSIX_IRQ_INDEX,
};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, ServerBackend};

use crate::serve::Shared;
use crate::serve::guest::MappedMemory;
use crate::serve::vectors::Vectors;

/// What a connection acts on.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) shared: Arc<Shared>,
    pub(crate) function: usize,
    pub(crate) memory: Arc<MappedMemory>,
    pub(crate) vectors: Arc<Vectors>,
}

impl Backend {
    /// The client has disconnected: treated like a power cut.
    pub(crate) fn disconnected(&mut self) {
        self.shared.lock().reset(self.function);
        self.vectors.clear();
        self.memory.clear();
    }
}

impl ServerBackend for Backend {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), Error> {
        let fabric = self.shared.lock();
        match region {
            VFIO_PCI_CONFIG_REGION_INDEX => fabric.config_read(self.function, offset, data),
            VFIO_PCI_BAR0_REGION_INDEX => fabric.mmio_read(self.function, offset, data),
            _ => data.fill(0),
        }
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), Error> {
        let mut fabric = self.shared.lock();
        match region {
            VFIO_PCI_CONFIG_REGION_INDEX => fabric.config_write(self.function, offset, data),
            VFIO_PCI_BAR0_REGION_INDEX => fabric.mmio_write(self.function, offset, data),
            _ => {}
        }
        let due = fabric.next_deadline().is_some();
        drop(fabric);
        if due {
            self.shared.nudge();
        }
        Ok(())
    }

    fn dma_map(
        &mut self,
        _flags: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        fd: Option<File>,
    ) -> Result<(), Error> {
        // Ranges without a descriptor are ROM, which no driver lets the device access.
        match fd {
            Some(file) => self.memory.map(address, size, file, offset),
            None => Ok(()),
        }
    }

    fn dma_unmap(&mut self, _flags: DmaUnmapFlags, address: u64, size: u64) -> Result<(), Error> {
        // Under the lock, so that no work in progress loses memory midway.
        let _fabric = self.shared.lock();
        self.memory.unmap(address, size);
        Ok(())
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.shared.lock().reset(self.function);
        Ok(())
    }

    fn set_irqs(
        &mut self,
        index: u32,
        _flags: u32,
        start: u32,
        count: u32,
        fds: Vec<File>,
    ) -> Result<(), Error> {
        if index == VFIO_PCI_MSIX_IRQ_INDEX {
            self.vectors.set(start, count, fds);
        }
        Ok(())
    }
}
