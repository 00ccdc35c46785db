//! Assigns trace lines to cases.

use std::collections::BTreeMap;

use super::{Fetched, FirmwareCommand, Line, Received, Rung, unhex, word};
use crate::table::Numbers;

/// Offset of the receive completion queue in CREATE_QP and CREATE_DCT.
const CQN_RECV: usize = 0x18 + 0x9c;
const DCT_CQN: usize = 0x10 + 0x08;
/// Offset of the number in replies to creations, and in commands that modify something.
const COMMAND_NUMBER: usize = 8;
const NUMBER: u32 = 0xff_ffff;
const CREATE_CQ: &str = "CREATE_CQ";
const CREATE_RMP: &str = "CREATE_RMP";

/// What the device saw for a case.
#[derive(Clone, Debug, Default)]
pub struct Life {
    /// Send requests, in order.
    pub sends: Vec<Fetched>,
    /// Receive requests of the other side, in order.
    pub receives: Vec<Received>,
    /// Doorbells of the sending queue.
    pub rings: Vec<Rung>,
    /// Doorbells of the completion queue of the receiving side.
    pub arms: Vec<Rung>,
    /// Firmware commands, by name; the sending side's before the receiving side's.
    pub commands: Vec<FirmwareCommand>,
}

/// Splits a trace (JSON lines) into consecutive cases. Each creates two ends, the sending one
/// first; numbers may be reused.
#[must_use]
pub fn lives(trace: &str, cases: &[Numbers]) -> Vec<Life> {
    let mut walk = Walk {
        cases,
        lives: vec![Life::default(); cases.len()],
        created: 0,
        cqn: 0,
        unclaimed: BTreeMap::new(),
    };
    for line in trace.lines() {
        let Ok(line) = serde_json::from_str::<Line>(line) else {
            continue;
        };
        if line.kind == "command" {
            walk.command(&line);
        } else {
            walk.entry(&line);
        }
    }
    for of_case in &mut walk.lives {
        of_case
            .commands
            .sort_by(|one, other| one.name.cmp(&other.name));
    }
    walk.lives
}

struct Walk<'a> {
    cases: &'a [Numbers],
    lives: Vec<Life>,
    /// Number of queue pairs created so far.
    created: usize,
    /// The receive completion queue of the last one.
    cqn: u32,
    /// Objects that queue pairs depend on, by name of the command and number. The kernel has some
    /// of its own.
    unclaimed: BTreeMap<(&'static str, u32), FirmwareCommand>,
}

impl Walk<'_> {
    fn command(&mut self, line: &Line) {
        let Some(command) = FirmwareCommand::new(line) else {
            return;
        };
        let (input, output) = (unhex(&line.input), unhex(&line.output));
        let created = word(&output, COMMAND_NUMBER) & NUMBER;
        match line.name.as_str() {
            "CREATE_CQ" => drop(self.unclaimed.insert((CREATE_CQ, created), command)),
            "CREATE_RMP" => drop(self.unclaimed.insert((CREATE_RMP, created), command)),
            // A target of dynamic connections is created by a command of its own.
            "CREATE_QP" | "CREATE_DCT" => {
                let at = self.created / 2;
                let Some(case) = self.cases.get(at) else {
                    return;
                };
                let receives = self.created % 2 == 1;
                if created != if receives { case.peer } else { case.qpn } {
                    return;
                }
                self.created += 1;
                let cqn = match line.name.as_str() {
                    "CREATE_DCT" => DCT_CQN,
                    _ => CQN_RECV,
                };
                self.cqn = word(&input, cqn) & NUMBER;
                let upon = [(CREATE_CQ, self.cqn), (CREATE_RMP, case.srq)];
                let upon = upon.into_iter().take(1 + usize::from(receives));
                let claimed = upon.filter_map(|key| self.unclaimed.remove(&key));
                self.lives[at].commands.extend(claimed);
                self.lives[at].commands.push(command);
            }
            _ => {
                let changed = word(&input, COMMAND_NUMBER) & NUMBER;
                if let Some((case, life)) = self.current()
                    && [case.qpn, case.peer].contains(&changed)
                {
                    life.commands.push(command);
                }
            }
        }
    }

    fn entry(&mut self, line: &Line) {
        let cqn = self.cqn;
        let Some((case, of_case)) = self.current() else {
            return;
        };
        let receives = if case.srq == 0 { case.peer } else { case.srq };
        match line.kind.as_str() {
            "wqe" if line.qpn == case.qpn => of_case.sends.push(Fetched::new(line, case)),
            "receive" if line.queue == receives => of_case.receives.push(Received::new(line, case)),
            "doorbell" if line.queue == case.qpn => of_case.rings.push(Rung::send(line)),
            "arm" if line.queue == cqn => of_case.arms.push(Rung::arm(line)),
            _ => {}
        }
    }

    /// The case of the queue pair that was created last.
    fn current(&mut self) -> Option<(&Numbers, &mut Life)> {
        let at = self.created.checked_sub(1)? / 2;
        self.cases.get(at).zip(self.lives.get_mut(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATE_SENDER: &str =
        r#"{"kind":"command","name":"CREATE_QP","in":"05","out":"000000000000000000000007"}"#;
    const CREATE_RECEIVER: &str =
        r#"{"kind":"command","name":"CREATE_QP","in":"05","out":"000000000000000000000008"}"#;

    #[test]
    fn numbers_are_replaced_and_incarnations_distinguished() {
        let trace = [
            CREATE_SENDER,
            CREATE_RECEIVER,
            r#"{"kind":"doorbell","queue":7,"place":2304,"value":"0000000a00000702","records":[0,1,2,null],"copied":false}"#,
            r#"{"kind":"wqe","function":0,"qpn":7,"index":0,"bytes":"0000000a00000702"}"#,
            r#"{"kind":"wqe","function":0,"qpn":7,"index":1,"bytes":"0000010a0000070200000000000000000000004000000900"}"#,
            r#"{"kind":"cqe","function":0,"queue":7,"index":1,"bytes":"00"}"#,
            r#"{"kind":"receive","pool":"srq","queue":9,"index":3,"record":5,"bytes":"0000000400000000000000000000000000000000000001"}"#,
            CREATE_SENDER,
            CREATE_RECEIVER,
            r#"{"kind":"wqe","function":0,"qpn":7,"index":0,"bytes":"0000000b00000701"}"#,
            r#"{"kind":"receive","pool":"qp","queue":8,"index":1,"record":2,"bytes":"0000000400000900"}"#,
        ]
        .join("\n");
        let numbers = Numbers {
            qpn: 7,
            peer: 8,
            srq: 9,
            xrc: false,
            lkey: 0x900,
            rkey: 0x901,
            caps: [0; 5],
            receives: [4, 3],
        };
        let own = Numbers { srq: 0, ..numbers };
        let cases = lives(&trace, &[numbers, own]);
        assert_eq!(cases[0].sends.len(), 2);
        assert_eq!(&cases[0].sends[1].bytes[20..24], b"lkey");
        assert_eq!(cases[0].sends[0].bytes.len(), 32);
        let rung = &cases[0].rings[0];
        assert_eq!((rung.place, rung.value), (0x100, 0x0a_0000_0002));
        let shared = &cases[0].receives[0];
        assert_eq!((shared.next, shared.bytes.len()), (Some(4), 32));
        assert_eq!(cases[1].sends[0].bytes[3], 0x0b);
        assert_eq!(cases[1].receives[0].bytes.len(), 64);
        assert_eq!(&cases[1].receives[0].bytes[4..8], b"lkey");
    }
}
