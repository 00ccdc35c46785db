//! Addresses as programs have them: `struct sockaddr` of a family, and `sockaddr_storage`.

use std::ffi::c_void;

use uverbs_core::cm::CmAddress;

use crate::abi::Storage;
use crate::answer::Answer;
use crate::errno::Code;
use crate::pointer::{In, items};

/// The address that C passes.
///
/// # Errors
/// EINVAL: NULL, or a family that is unknown.
pub(crate) fn read(address: *const c_void) -> Answer<CmAddress> {
    let family: &[u8; 2] = In::of(address.cast()).get()?;
    let len = CmAddress::sockaddr_len(*family).ok_or(Code::INVALID)?;
    let bytes = items(address.cast::<u8>(), len)?;
    CmAddress::from_sockaddr(bytes).ok_or(Code::INVALID)
}

/// The same, which may be NULL.
pub(crate) fn read_if_any(address: *const c_void) -> Answer<Option<CmAddress>> {
    if address.is_null() {
        return Ok(None);
    }
    read(address).map(Some)
}

/// The address for C; zeros for none.
pub(crate) fn store(address: Option<CmAddress>) -> Storage {
    Storage(address.map_or([0; 128], |address| address.to_sockaddr().0))
}

/// The port of an address, in network order; the end of the service's number if it is not an IP
/// address.
pub(crate) fn port(storage: &Storage) -> u16 {
    let port = match CmAddress::from_sockaddr(&storage.0) {
        Some(CmAddress::Ip(address)) => address.port(),
        Some(CmAddress::Ib(address)) => (address.service_id & 0xffff) as u16,
        _ => 0,
    };
    port.to_be()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use uverbs_core::cm::IbAddress;

    #[test]
    fn addresses_are_read_as_they_were_stored() {
        let ib = IbAddress {
            service_id: 0x0106_1d1f,
            ..IbAddress::default()
        };
        let ips = ["192.0.2.1:7471", "[2001:db8::1]:7471"].map(|text| {
            let address: SocketAddr = text.parse().unwrap();
            CmAddress::from(address)
        });
        for (address, number) in [(ips[0], 7471), (ips[1], 7471), (ib.into(), 0x1d1f_u16)] {
            let storage = store(Some(address));
            let pointer: *const Storage = &raw const storage;
            assert_eq!(read(pointer.cast()), Ok(address));
            assert_eq!(port(&storage), number.to_be());
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        assert_eq!(read(std::ptr::null()), Err(Code::INVALID));
        assert_eq!(read_if_any(std::ptr::null()), Ok(None));
        let none = store(None);
        let pointer: *const Storage = &raw const none;
        assert_eq!(read(pointer.cast()), Err(Code::INVALID));
        assert_eq!(port(&none), 0);
    }
}
