//! Raw packets, and the rules that steer them to their queue pair.

use uverbs::mlx5::prm::{Mailbox, word};
use uverbs::mlx5::steering::{
    FlowCounter, FlowTarget, MatchHeaders, MatchParameters, MatchRule, MatcherInit,
};
use uverbs::mlx5::{EthernetFields, FlowFlags, FlowInit, FlowKind, FlowSpec};

use super::{PORT, Stage, shaping};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];
const ETHER_TYPE: u16 = 0x88b5;
const ALLOC_FLOW_COUNTER: u16 = 0x939;
const QUERY_FLOW_COUNTER: u16 = 0x93b;

fn of_type(mac: [u8; 6], ether_type: u16) -> MatchParameters {
    let words = MatchParameters::new().destination_mac(MatchHeaders::Outer, mac);
    words.ether_type(MatchHeaders::Outer, ether_type)
}

impl Stage {
    /// A verbs flow rule, and rules by match parameters.
    pub(crate) fn raw_packets(&self) -> anyhow::Result<()> {
        let pd = self.context.alloc_pd()?;
        let cq = self.context.create_cq(32)?;
        let mut qp = shaping::raw(&pd, &cq)?;
        let fields = |destination, ether_type| EthernetFields {
            destination,
            ether_type,
            ..EthernetFields::default()
        };
        let spec = FlowSpec::Ethernet(fields(MAC, ETHER_TYPE), fields([0xff; 6], 0xffff));
        let rule = qp.create_flow(&FlowInit {
            kind: FlowKind::Normal,
            priority: 0,
            port: PORT,
            flags: FlowFlags::empty(),
            specs: &[spec],
        })?;
        qp.destroy_flow(rule)?;

        let adapter = self.context.mlx5()?;
        let mask = of_type([0xff; 6], 0xffff);
        let matcher = adapter.create_flow_matcher(&MatcherInit::new(&mask))?;
        let command = Mailbox::command(ALLOC_FLOW_COUNTER, 0, 16);
        // SAFETY: see the program's paragraph.
        let counter = unsafe { adapter.devx()?.create(&command, 16, []) }?;
        let value = of_type(MAC, ETHER_TYPE);
        let leading = qp.steer(
            &matcher,
            &MatchRule {
                tag: Some(0x7777),
                counter: Some(FlowCounter {
                    counter: &counter,
                    offset: None,
                }),
                ..MatchRule::new(&value)
            },
        )?;
        let other = of_type(MAC, ETHER_TYPE + 1);
        let dropping = matcher.create_flow(FlowTarget::Drop, &MatchRule::new(&other))?;
        let mut query = Mailbox::command(QUERY_FLOW_COUNTER, 0, 32);
        query.set(word(0x1c), counter.id());
        counter.query(&query, 32)?;
        dropping.destroy()?;
        qp.destroy_flow(leading)?;
        counter.destroy()?;
        matcher.destroy()?;
        qp.destroy()?;
        cq.destroy()?;
        pd.dealloc()?;
        Ok(())
    }
}
