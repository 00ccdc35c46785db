//! Lasting misbehaviours: a device that constantly does one thing wrong, for tests of programs that
//! check devices.
//!
//! They affect messages and queues of programs; the kernel's own queues keep working correctly.
//! None reaches memory that the device was not given.

macro_rules! misbehaviours {
    ($($kind:ident $name:literal $words:literal)*) => {
        /// One thing that a function does wrong from when it is requested until it is cancelled.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Misbehaviour {
            $(#[doc = $words] $kind,)*
        }

        impl Misbehaviour {
            /// All of them, with their names and what is wrong then.
            pub const ALL: &[(&str, Self, &str)] = &[$(($name, Self::$kind, $words),)*];
        }
    };
}

misbehaviours! {
    Data "data" "the last byte of every message and frame arrives changed"
    DataBeyond "data-beyond" "the byte behind every message is written"
    Inline "inline" "the last byte that a request carries itself is changed"
    LateReads "late-reads" "what was read is in memory only after the next message"
    LostRequest "lost-request" "request 4,095 is left out, and receive 4,095 gets a changed byte"
    SecondRegister "second-register" "doorbells of send queues are ignored everywhere but in the first place of a page"
    LostCompletions "lost-completions" "completions are not written"
    ByteCount "byte-count" "completions of receives count a byte too many"
    ImmediateOrder "immediate-order" "immediate data arrive in the other order of bytes"
    NoImmediate "no-immediate" "messages with immediate data complete as such without"
    CompletionOrder "completion-order" "of two completions in a row the second comes first"
    ThirdLap "third-lap" "from its third lap on, a completion queue's entries have the wrong owner"
    ResizeLoses "resize-loses" "the first completion after a resize is lost"
    NoEvents "no-events" "completions make no events"
    LastVector "last-vector" "completions make no events on the last vector"
    SolicitedArm "solicited-arm" "a queue armed for solicited completions fires at any"
    ArmStays "arm-stays" "a queue that has fired is armed still"
    LateArm "late-arm" "a queue is not armed if a completion came before"
    StampBack "stamp-back" "time stamps go back"
    StampFar "stamp-far" "time stamps are an hour ahead"
    LongEntries "long-entries" "entries of 128 bytes are written into their first half"
    CompressedCount "compressed-count" "completions written as one count one too few"
    Syndrome "syndrome" "requests that fail end with another syndrome"
    FlushedAsDone "flushed-as-done" "what is flushed completes as if it was done"
    RnrForever "rnr-forever" "a sender without a receive tries again without end"
    Grants "grants" "what peers may not do is acknowledged, though not done"
    GrantsLocally "grants-locally" "a request with memory it may not use is done, though nothing is moved"
    CutsMessages "cuts-messages" "messages longer than their receive are cut to its length"
    AnswersForOthers "answers-for-others" "messages to queue pairs that are not connected are acknowledged"
    KeepsPositions "keeps-positions" "a reset leaves a queue pair's positions as they are"
    HeaderFlag "header-flag" "completions of datagrams say the opposite about the header"
    HeaderMissing "header-missing" "the header before datagrams is zeros"
    HeaderAddress "header-address" "the header before datagrams has another sender"
    HeaderProtocol "header-protocol" "the header before datagrams has another protocol"
    TrafficClass "traffic-class" "datagrams lose their traffic class"
    SourceQueue "source-queue" "completions of datagrams have another sender's number"
    QueueKey "queue-key" "queue keys are not compared"
    PageOrder "page-order" "peers write to the neighbour of the page they mean"
    AtomicOperands "atomic-operands" "what is compared and what is swapped change places"
    AtomicCompare "atomic-compare" "only the low half of a word is compared"
    AtomicCarry "atomic-carry" "sums do not carry into the high half of a word"
    AtomicAnswer "atomic-answer" "the old value is returned in the other byte order"
    AtomicLost "atomic-lost" "every sixteenth addition is reported and not done"
    AttachIgnored "attach-ignored" "queue pairs stay where they are when they are attached to a leaf"
    NoCapabilities "no-capabilities" "programs see no capability"
    NoLid "no-lid" "the port says that it has no LID"
    PortStays "port-stays" "a port that is down says that it is up"
    NoPartition "no-partition" "the first partition key is 0"
}

impl Misbehaviour {
    /// Finds one by name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(known, ..)| *known == name)
            .map(|(_, misbehaviour, _)| *misbehaviour)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn misbehaviours_have_unique_names() {
        let kinds: BTreeSet<_> = Misbehaviour::ALL.iter().map(|(_, kind, _)| kind).collect();
        assert_eq!(kinds.len(), Misbehaviour::ALL.len());
        for (name, kind, _) in Misbehaviour::ALL {
            assert_eq!(Misbehaviour::parse(name), Some(*kind));
        }
        assert_eq!(Misbehaviour::parse("colour"), None);
    }
}
