//! What threads and the recorder see.

use std::sync::Arc;

use fake_tests::connections::{at, connected, listen, next};
use fake_tests::{Bench, PATIENCE};
use uverbs_core::cm::{self, EventKind, PortSpace};
use uverbs_core::sys::recorder::{Collector, FdClass, Record};
use uverbs_core::types::QpType;

#[test]
fn a_thread_that_waits_is_woken() {
    let bench = Bench::newest();
    let file = bench.connection_manager().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            assert!(file.wait_event(Some(PATIENCE)).unwrap());
            next(&file, EventKind::AddressResolved).unwrap().uid
        });
        let id = cm::create_id(&file, 4, PortSpace::Tcp, QpType::Rc).unwrap();
        cm::resolve_address(&file, id, None, at(1), PATIENCE).unwrap();
        assert_eq!(waiting.join().unwrap(), 4);
    });
}

#[test]
fn a_second_connect_is_eleven_commands_or_fewer() {
    let collector = Arc::new(Collector::default());
    let bench = Bench::newest().recorded_by(collector.clone());
    let (server, client) = (
        bench.connection_manager().unwrap(),
        bench.connection_manager().unwrap(),
    );
    let (_, port) = listen(&server, 1, PortSpace::Tcp, 8).unwrap();
    connected(&client, &server, port, 17).unwrap();
    collector.take();
    connected(&client, &server, port, 19).unwrap();
    let records = collector.take();
    let lines: Vec<String> = records.iter().map(ToString::to_string).collect();
    assert!(
        records
            .iter()
            .all(|record| record.fd == FdClass::ConnectionManager)
    );
    let active = records
        .iter()
        .filter(|record| record.fd_number == records[0].fd_number);
    // With two for the attributes of the queue pair, and one for its device, there are eleven.
    assert_eq!(active.count(), 8, "{lines:#?}");
    assert!(
        lines[0].starts_with("cm CREATE_ID uid=19 ps=262 "),
        "{}",
        lines[0]
    );
    assert!(lines[0].contains("id→"), "{}", lines[0]);
    let connect = lines.iter().find(|line| line.contains("CONNECT"));
    assert!(connect.unwrap().contains("id="), "{connect:?}");
    let outlines: Vec<_> = records.iter().filter_map(Record::outline).collect();
    assert_eq!(outlines.len(), records.len());
    assert!(outlines.contains(&"write ok RDMA_USER_CM_CMD_GET_EVENT".to_owned()));
}
