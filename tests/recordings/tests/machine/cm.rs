//! Commands of the connection manager: both ends on the one device of a guest.

use recordings::cm::{PROBE, recording};
use recordings::compare::{Reasons, differences};
use testbed::{Kernel, Machine};

use super::agree::kept;
use super::{GOLDEN_KERNEL, compiled, kernel, package, program, record};

const DEVICE: &str = "rxe0";
const ADDRESS: &str = "10.1.0.1";
const SCENARIOS: [&str; 5] = ["connect", "reject", "resolve", "datagrams", "multicast"];

/// Compares every scenario, and both sides with the earlier recordings.
pub(crate) fn connection_manager() {
    let folder = std::env::temp_dir().join(format!("recordings-cm-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let oracle = compiled(
        &folder.join("scenario-cm-theirs"),
        &["cm.c"],
        &["libibverbs-dev", "librdmacm-dev", "libc6-dev"],
        &["-lrdmacm", "-libverbs"],
    );
    let kernel = kernel();
    let guest = Machine::new(Kernel::named(&kernel).expect("a kernel"))
        .with_debian_tools()
        .with_debian_packages(&["rdmacm-utils"])
        .with_binary(program("record-calls"), "record-calls")
        .with_binary(program("scenario-cm"), "scenario-cm")
        .with_binary(oracle, "scenario-cm-theirs")
        .boot()
        .expect("the machine boots");
    let _ = std::fs::remove_dir_all(&folder);
    let list = package().join("cm-differences.txt");
    let mut reasons = Reasons::read(&std::fs::read_to_string(list).unwrap()).unwrap();
    let (mut wrong, mut commands) = (Vec::new(), 0);
    for scenario in SCENARIOS {
        let sides = [
            (
                "librdmacm",
                format!("scenario-cm-theirs {ADDRESS} {scenario}"),
            ),
            (
                "uverbs",
                format!("scenario-cm {DEVICE} {ADDRESS} {scenario}"),
            ),
        ];
        let [mut theirs, ours] = sides.map(|(side, command)| {
            let made = recording(&record(&guest, &command)).expect("commands");
            if kernel == GOLDEN_KERNEL {
                let text = format!("# Linux {GOLDEN_KERNEL}: record-calls FILE {command}\n{made}");
                wrong.extend(kept(&format!("cm/{scenario}.{side}.txt"), &text));
            }
            made
        });
        theirs.lives.remove(PROBE);
        commands += theirs
            .lives
            .values()
            .map(|life| life.steps.len())
            .sum::<usize>();
        for difference in differences(&theirs, &ours) {
            if !reasons.covers(&difference) {
                wrong.push(format!("{scenario}: {difference}"));
            }
        }
    }
    if kernel == GOLDEN_KERNEL {
        let unused = reasons.unused().into_iter();
        wrong.extend(unused.map(|line| format!("a reason that nothing needs: {line}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!(
        "{commands} commands of librdmacm; on purpose differ:\n{}",
        reasons.counts().join("\n")
    );
}
