//! libmlx5 on this machine, without a virtual one: over a kernel that is preloaded into the program
//! (`tests/cost/preload`), whose device is the software ConnectX in the process, as that of our
//! loops is.
//!
//! Programs run with all libraries of their Debian suite, by its loader: this machine's C library
//! may be too old for them.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;

use super::callgrind::{self, Counts};
use super::libmlx5::{ONE_THREAD, SUITE, Way};
use super::oracle::{self, Programs};
use super::times::Times;
use crate::programs;

/// The folders with the loader and the libraries, and the provider, in a suite's packages.
const LOADER: &str = "usr/lib64/ld-linux-x86-64.so.2";
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
const PROVIDER: &str = "usr/lib/x86_64-linux-gnu/libibverbs/libmlx5";

/// The package of the kernel.
const PRELOAD: &str = "cost-preload";

/// The device, as the programs name it.
const DEVICE: &str = "mlx5_0";

/// Files of sysfs from which libibverbs knows a device (rdma-core, `libibverbs/init.c`), where it
/// cannot ask by netlink. The number is that of `/dev/zero`, which is opened in place of the node.
const SYSFS: [(&str, &str); 6] = [
    ("infiniband_verbs/abi_version", "6"),
    ("infiniband_verbs/uverbs0/ibdev", DEVICE),
    ("infiniband_verbs/uverbs0/abi_version", "1"),
    ("infiniband_verbs/uverbs0/dev", "1:5"),
    ("infiniband/mlx5_0/node_type", "1: CA"),
    (
        "infiniband/mlx5_0/device/modalias",
        "pci:v000015B3d00001019sv000015B3sd00000008bc02sc07i00",
    ),
];

/// What its programs need to run here.
pub(super) struct Native<'a> {
    programs: &'a Programs,
    /// Of Debian's packages.
    root: PathBuf,
    kernel: PathBuf,
    sysfs: PathBuf,
}

impl<'a> Native<'a> {
    /// Builds the kernel, and describes its device in a folder beside the programs.
    pub(super) fn new(oracles: &'a Programs) -> anyhow::Result<Self> {
        let sysfs = oracles.folder().join("sys");
        for (file, content) in SYSFS {
            let path = sysfs.join("class").join(file);
            let folder = path.parent().unwrap_or(&sysfs);
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
            fs::write(&path, content).with_context(|| path.display().to_string())?;
        }
        Ok(Self {
            programs: oracles,
            root: oracle::root(SUITE)?,
            kernel: programs::library(PRELOAD, ("cdylib", "so"), &[])?,
            sysfs,
        })
    }

    /// Times its loops one of its ways.
    pub(super) fn time(&self, way: Way, rounds: u32) -> anyhow::Result<Times> {
        let mut command = Command::new(self.root.join(LOADER));
        command.args(self.arguments(way, rounds)).arg("time");
        command.env_remove("RDMAV_DRIVERS").env_remove(ONE_THREAD);
        Times::of(command.envs(self.environment(way)))
    }

    /// Counts the instructions of its loops one of its ways.
    pub(super) fn count(&self, way: Way, rounds: u32) -> anyhow::Result<Counts> {
        let loader = self.root.join(LOADER);
        let environment = self.environment(way);
        callgrind::run_c_with(&loader, &self.arguments(way, rounds), &environment)
    }

    /// What its loader is told.
    fn arguments(&self, (_, program, _): Way, rounds: u32) -> Vec<OsString> {
        let paths = [
            ("--library-path", self.root.join(LIBRARIES)),
            ("--preload", self.kernel.clone()),
        ];
        let options = paths
            .into_iter()
            .flat_map(|(option, path)| [option.into(), path.into()]);
        let program = [
            self.programs.path(program).into(),
            DEVICE.into(),
            rounds.to_string().into(),
        ];
        options.chain(program).collect()
    }

    fn environment(&self, (_, _, alone): Way) -> Vec<(&'static str, OsString)> {
        let mut environment = vec![
            ("SYSFS_PATH", self.sysfs.clone().into()),
            ("IBV_DRIVERS", self.root.join(PROVIDER).into()),
        ];
        if alone {
            environment.push((ONE_THREAD, "1".into()));
        }
        environment
    }
}
