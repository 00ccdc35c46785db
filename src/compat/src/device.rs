//! The device list: `ibv_get_device_list` and what is asked about its entries.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for. The array that C gets is allocated by the
//! C library, so that its size need not be known to free it; it ends with NULL.
#![allow(unsafe_code, reason = "exports names; makes an array for C")]

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use uverbs_core::discover::{self, DeviceInfo, Options};
use uverbs_core::sys::CharDevice;
use uverbs_core::types::{NodeType, TransportType};

use crate::abi::ibv_device;
use crate::answer::{Answer, minus_one, or, pointer};
use crate::errno::Code;
use crate::pointer::{Handle, Object, Out};
use crate::{env, fork};

/// A device of the list. It lives while it is there, and as long as an array or an opened context
/// refers to it: programs keep the address of a device whose array they have freed.
#[repr(C)]
pub(crate) struct Device {
    c: ibv_device,
    pub(crate) info: DeviceInfo,
    references: AtomicUsize,
}

impl Object for Device {
    type C = ibv_device;
}

/// The address of a device of the list.
struct Entry(*mut Device);

// SAFETY: it is only accessed with the list locked, or by owners of a reference.
unsafe impl Send for Entry {}

static LIST: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// Where devices are looked for.
pub(crate) fn options() -> Options {
    let mut options = Options::default();
    options.sysfs_root = env::sysfs().into();
    options
}

impl Device {
    fn new(info: DeviceInfo) -> Self {
        let node = info.node_type.unwrap_or(NodeType::ChannelAdapter);
        let transport = node.transport().unwrap_or(TransportType::InfiniBand);
        let sysfs = env::sysfs();
        let node_name = info.uverbs.clone().unwrap_or_default();
        let c = ibv_device {
            _ops: [std::ptr::null(); 2],
            node_type: node.raw().into(),
            transport_type: transport.raw().into(),
            name: text(&info.name),
            dev_path: text(&format!("{sysfs}/class/infiniband_verbs/{node_name}")),
            ibdev_path: text(&format!("{sysfs}/class/infiniband/{}", info.name)),
            dev_name: text(&node_name),
        };
        Self {
            c,
            info,
            // The list's own.
            references: AtomicUsize::new(1),
        }
    }

    /// One that is in no list, with one reference.
    #[cfg(feature = "harness")]
    pub(crate) fn alone(info: DeviceInfo) -> *mut ibv_device {
        Self::to_c(Box::into_raw(Box::new(Self::new(info))))
    }

    fn is(&self, other: &DeviceInfo) -> bool {
        self.info.name == other.name
            && self.info.index == other.index
            && self.info.number == other.number
    }

    /// Adds a reference.
    pub(crate) fn keep(&self) {
        self.references.fetch_add(1, Ordering::Relaxed);
    }

    /// Drops a reference; the last one frees the device.
    pub(crate) fn release(&self) {
        if self.references.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.free();
        }
    }
}

/// A text in an array, with a zero behind it.
pub(crate) fn text<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    for (place, byte) in array.iter_mut().zip(text.bytes()).take(N - 1) {
        *place = byte.cast_signed();
    }
    array
}

/// Takes devices that are gone off the list.
fn forget_others(list: &mut Vec<Entry>, found: &[DeviceInfo]) {
    list.retain(|entry| {
        let device = Handle::<Device>::of(Device::to_c(entry.0));
        let Some(device) = device.optional() else {
            return false;
        };
        let is_there = found.iter().any(|info| device.is(info));
        if !is_there {
            device.release();
        }
        is_there
    });
}

/// The devices that there are now, each with one reference more.
fn current() -> Answer<Vec<*mut ibv_device>> {
    let options = options();
    let found = discover::list(&options)?;
    if found.is_empty() && !options.sysfs_root.join("class/infiniband_verbs").exists() {
        return Err(Code::NO_SYSTEM);
    }
    let mut list = LIST.lock().unwrap_or_else(PoisonError::into_inner);
    forget_others(&mut list, &found);
    let mut devices = Vec::new();
    for info in found {
        if uverbs_any::supported(&info).is_err() || info.uverbs.is_none() {
            continue;
        }
        let known = list.iter().map(|entry| entry.0).find(|device| {
            let device = Handle::<Device>::of(Device::to_c(*device));
            device.get().is_ok_and(|device| device.is(&info))
        });
        let device = known.unwrap_or_else(|| {
            let device = Box::into_raw(Box::new(Device::new(info)));
            list.push(Entry(device));
            device
        });
        let device = Device::to_c(device);
        Handle::<Device>::of(device).get()?.keep();
        devices.push(device);
    }
    Ok(devices)
}

/// The device whose node has this number, with one reference more.
pub(crate) fn by_number(number: CharDevice) -> Answer<Handle<Device>> {
    let mut found = None;
    for device in current()? {
        let device = Handle::<Device>::of(device);
        let one = device.get()?;
        if one.info.number == Some(number) && found.is_none() {
            found = Some(device);
        } else {
            one.release();
        }
    }
    found.ok_or(Code::NO_ENTRY)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_device_list(count: Out<c_int>) -> *mut *mut ibv_device {
    count.put_if_any(0);
    pointer(|| {
        if env::is_fork_safe() {
            fork::init()?;
        }
        let devices = current()?;
        // SAFETY: the function has no conditions.
        let array = unsafe { libc::calloc(devices.len() + 1, size_of::<*mut ibv_device>()) };
        let array = array.cast::<*mut ibv_device>();
        if array.is_null() {
            return Err(Code::NO_ROOM);
        }
        for (at, device) in devices.iter().enumerate() {
            // SAFETY: the array has one place for each, and one more.
            unsafe { array.wrapping_add(at).write(*device) };
        }
        count.put_if_any(c_int::try_from(devices.len()).unwrap_or(c_int::MAX));
        Ok(array)
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_free_device_list(array: *mut *mut ibv_device) {
    if array.is_null() {
        return;
    }
    for at in 0.. {
        let place = array.wrapping_add(at);
        // SAFETY: an array that `ibv_get_device_list` returned; its end has not been reached yet.
        let device = unsafe { place.read() };
        if device.is_null() {
            break;
        }
        if let Ok(device) = Handle::<Device>::of(device).get() {
            device.release();
        }
    }
    // SAFETY: allocated by `calloc`.
    unsafe { libc::free(array.cast()) };
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_device_name(device: Handle<Device>) -> *const c_char {
    let name = device.get().map(|device| device.c.name.as_ptr());
    name.unwrap_or(std::ptr::null())
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_device_guid(device: Handle<Device>) -> u64 {
    or(0, || {
        let guid = device.get()?.info.node_guid.unwrap_or_default();
        Ok(u64::from_ne_bytes(guid.to_bytes()))
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_device_index(device: Handle<Device>) -> c_int {
    minus_one(|| {
        let index = device.get()?.info.index.ok_or(Code::UNSUPPORTED)?;
        c_int::try_from(index).map_err(|_| Code::INVALID)
    })
}
