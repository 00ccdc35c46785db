//! Opening a device by name, by node, by path and by descriptor.

use uverbs::attr::DriverId;
use uverbs::discover::DriverMatch;
use uverbs::kernel::CommandPath;
use uverbs::{ErrorKind, OpenOptions};
use verbs_tests::{Driver, command_path, device_name, driver, open, options};

#[test]
fn by_the_names_of_device_and_node() {
    let by_device = open();
    assert_eq!(by_device.name(), device_name());
    let node = by_device.info().uverbs.clone().unwrap();
    let by_node = options().open(&node).unwrap();
    assert_eq!(by_node.name(), device_name());
    assert_eq!(by_node.device_attr(), by_device.device_attr());
}

#[test]
fn by_path() {
    let path = open().info().path.clone().unwrap();
    let context = options().open_path(&path).unwrap();
    assert_eq!(context.name(), device_name());
    context.alloc_pd().unwrap().dealloc().unwrap();
}

#[test]
fn by_descriptor() {
    let path = open().info().path.clone().unwrap();
    let node = std::fs::File::options().read(true).write(true).open(path);
    let node = node.unwrap();
    let used = node.try_clone().unwrap();
    let context = options().from_fd(node.into()).unwrap();
    assert_eq!(context.name(), device_name());
    context.query_port(1).unwrap();

    let error = options().from_fd(used.into()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

#[test]
fn a_descriptor_of_something_else_is_refused() {
    let null = || {
        std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
    };
    let error = options().from_fd(null().unwrap().into()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    // Neither by the name of an existing device, nor by a path on which no command identifies the
    // driver.
    for path in [command_path(), CommandPath::Write] {
        let options = OpenOptions::new().command_path(path);
        let info = open().info().clone();
        let error = options.over(info, null().unwrap().into()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
}

#[test]
fn a_device_is_not_opened_as_that_of_another_driver() {
    let context = open();
    let mut info = context.info().clone();
    let other = match driver() {
        Driver::Mlx5 => DriverId::Rxe,
        Driver::Rxe => DriverId::Mlx5,
    };
    info.driver = DriverMatch::Kernel(other);
    info.abi_version = Some(1);
    let path = info.path.clone().unwrap();
    for commands in [
        CommandPath::Auto,
        CommandPath::Ioctl,
        CommandPath::InvokeWrite,
        CommandPath::Write,
    ] {
        let node = std::fs::File::options().read(true).write(true).open(&path);
        let options = OpenOptions::new().command_path(commands);
        let error = options
            .over(info.clone(), node.unwrap().into())
            .unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::InvalidInput,
            "{commands:?}: {error}"
        );
    }
}

#[test]
fn a_device_that_is_not_there_is_not_found() {
    let error = options().open("no_such_device").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let error = options().open_path("/dev/infiniband/none").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[test]
fn every_listed_device_reports_whether_it_can_be_opened() {
    let devices = uverbs::devices().unwrap();
    let ours = devices
        .iter()
        .find(|device| device.name() == device_name())
        .expect("the device is listed");
    ours.check_supported().unwrap();
    let id = match driver() {
        Driver::Rxe => DriverId::Rxe,
        Driver::Mlx5 => DriverId::Mlx5,
    };
    assert_eq!(ours.info().driver_id(), Some(id));
    let context = OpenOptions::new()
        .command_path(command_path())
        .open_device(ours)
        .unwrap();
    assert_eq!(context.name(), ours.name());
}

#[test]
fn a_context_lives_as_long_as_anything_made_from_it() {
    let context = open();
    let pd = context.alloc_pd().unwrap();
    let other = context.clone();
    drop(context);
    drop(other);
    pd.context().query_port(1).unwrap();
    let [buffer] = pd.buffers::<1>(64).unwrap();
    drop(pd);
    assert_eq!(&buffer[..], &[0; 64]);
}
