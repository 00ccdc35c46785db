//! The processors of machines.

use crate::host::Tool;

/// The processor of a machine.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Processor {
    /// 64-bit x86.
    #[default]
    Amd64,
    /// 64-bit Arm.
    Arm64,
}

impl Processor {
    /// Debian's name for it.
    pub(crate) fn debian(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// The target of static programs that run on it.
    pub fn target(self) -> &'static str {
        match self {
            Self::Amd64 => crate::cargo::MUSL,
            Self::Arm64 => crate::cargo::MUSL_ARM,
        }
    }

    /// The machine type for QEMU.
    pub(crate) fn board(self) -> &'static str {
        match self {
            Self::Amd64 => "q35",
            Self::Arm64 => "virt",
        }
    }

    /// Its CPU model for QEMU. Pointer authentication, which `max` would have, takes longer to
    /// emulate than everything else.
    pub(crate) fn model(self) -> &'static str {
        match self {
            Self::Amd64 => "max",
            Self::Arm64 => "cortex-a76",
        }
    }

    /// The kernel's name of the serial port.
    pub(crate) fn console(self) -> &'static str {
        match self {
            Self::Amd64 => "ttyS0",
            Self::Arm64 => "ttyAMA0",
        }
    }

    /// Kernel arguments that depend on the processor.
    pub(crate) fn kernel_arguments(self) -> &'static str {
        match self {
            Self::Amd64 => "tsc=reliable",
            Self::Arm64 => "",
        }
    }

    pub(crate) fn qemu(self) -> (&'static str, Tool) {
        match self {
            Self::Amd64 => ("qemu-system-x86_64", Tool::Qemu),
            Self::Arm64 => ("qemu-system-aarch64", Tool::QemuArm),
        }
    }
}
