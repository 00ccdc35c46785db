//! Compares every scenario, and both sides with the earlier recordings.

use std::collections::BTreeMap;
use std::time::Instant;

use recordings::compare::{Difference, Reasons, differences};
use recordings::normal::Recording;
use recordings::shapes::Shapes;
use testbed::Guest;

use super::{GOLDEN_KERNEL, OF_TEST_SUITE, Play, Stage, package, record};

/// Set to rewrite the goldens.
const WRITE: &str = "UVERBS_RECORDINGS_WRITE";

impl Play {
    /// Runs every scenario on both sides.
    pub(super) fn on(&self, guest: &Guest, kernel: &str) {
        let since = Instant::now();
        let list = package().join(format!("{}-differences.txt", self.driver));
        let mut reasons = Reasons::read(&std::fs::read_to_string(&list).unwrap()).unwrap();
        let mut without_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut wrong = Vec::new();
        let mut shapes = Shapes::default();
        let (mut calls, mut scenarios) = (0, 0);
        for stage in &self.stages {
            for scenario in &stage.scenarios {
                let [theirs, ours] = ["scenario-theirs", "scenario"].map(|program| {
                    record(guest, &format!("{program} {} {scenario}", stage.device))
                });
                shapes.record(&ours, self.number).unwrap();
                let [theirs, ours] = [theirs, ours]
                    .map(|calls| Recording::read(&calls, self.number).expect("calls"));
                calls += theirs
                    .lives
                    .values()
                    .map(|life| life.steps.len())
                    .sum::<usize>();
                scenarios += 1;
                for difference in differences(&theirs, &ours) {
                    if !reasons.covers(&difference) {
                        let Difference { object, .. } = &difference;
                        let place = format!("{} {scenario} {object}", stage.kind);
                        let what = difference.describe();
                        without_reason.entry(what).or_default().push(place);
                    }
                }
                if kernel == GOLDEN_KERNEL {
                    for (side, recording) in [("rdma-core", &theirs), ("uverbs", &ours)] {
                        wrong.extend(stage.golden(scenario, side, recording));
                    }
                }
            }
            let beside = format!("scenario {} {OF_TEST_SUITE}", stage.device);
            shapes.record(&record(guest, &beside), self.number).unwrap();
        }
        if kernel == GOLDEN_KERNEL {
            wrong.extend(self.shapes(&shapes));
        }
        // Each difference once, with where it occurs.
        wrong.extend(
            without_reason
                .into_iter()
                .map(|(what, places)| format!("{what}  [{}]", places.join(", "))),
        );
        if kernel == GOLDEN_KERNEL {
            wrong.extend(
                reasons
                    .unused()
                    .into_iter()
                    .map(|line| format!("a reason that nothing needs: {line}")),
            );
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        println!(
            "{}: {scenarios} scenarios agree in {:.0?}: {calls} calls of rdma-core; on purpose differ:\n{}",
            self.driver,
            since.elapsed(),
            reasons.counts().join("\n")
        );
    }

    /// The first line in which the shapes of this library's calls differ from the golden.
    fn shapes(&self, shapes: &Shapes) -> Option<String> {
        let Self { driver, .. } = self;
        let text = format!(
            "# Linux {GOLDEN_KERNEL}: record-calls FILE scenario DEVICE SCENARIO, all scenarios and test-suite; \
             call-shapes {driver} FILE...\n{shapes}"
        );
        kept(&format!("test-suite/{driver}.uverbs.txt"), &text)
    }
}

/// The first line in which a text differs from its golden; or writes the golden.
pub(super) fn kept(name: &str, text: &str) -> Option<String> {
    let file = package().join("goldens").join(name);
    if std::env::var_os(WRITE).is_some() {
        std::fs::create_dir_all(file.parent()?).unwrap();
        std::fs::write(&file, text).unwrap();
        return None;
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    let mut lines = kept.lines().zip(text.lines());
    let differs = lines.find(|(kept, now)| kept != now);
    let (kept_count, now_count) = (kept.lines().count(), text.lines().count());
    match differs {
        Some((kept, now)) => Some(format!("{name}: kept {kept}\n  now {now}")),
        None if kept_count != now_count => {
            Some(format!("{name}: kept {kept_count} lines, now {now_count}"))
        }
        None => None,
    }
}

impl Stage {
    /// The first line in which a recording differs from its golden.
    fn golden(&self, scenario: &str, side: &str, recording: &Recording) -> Option<String> {
        let Self { kind, device, .. } = self;
        let program = if side == "uverbs" {
            "scenario"
        } else {
            "scenario-theirs"
        };
        let text = format!(
            "# Linux {GOLDEN_KERNEL}: record-calls FILE {program} {device} {scenario}\n{recording}"
        );
        kept(&format!("{kind}/{scenario}.{side}.txt"), &text)
    }
}
