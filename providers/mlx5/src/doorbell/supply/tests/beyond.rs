//! Pages of contexts with fixed doorbells, and those beyond.

use super::*;

/// A context of 16 fixed doorbells that may map `extra` more.
fn extra(extra: u32, per_page: u32, register_size: usize) -> (Arc<Scripted>, Uars) {
    let (script, uars) = fixed();
    let config = UarConfig {
        extra,
        per_page,
        register_size: register_size as u32,
        ..uars.config
    };
    (script, Uars { config, ..uars })
}

#[test]
fn threads_of_a_context_with_fixed_doorbells_have_pages_beyond_those() {
    let (script, uars) = extra(11, 2, REGISTER);
    let map = |index| {
        let offset = mmap::offset(MLX5_IB_MMAP_ALLOC_WC, index);
        format!("map {offset:#x} {}", page_size())
    };
    script.refuse("map", Errno::NOMEM);
    uars.for_thread().unwrap_err();
    script.accept();
    script.take_calls();
    let first = uars.for_thread().unwrap();
    let second = uars.for_thread().unwrap();
    assert_eq!(script.take_calls(), [map(0), map(1)]);
    assert_eq!(
        (first.naming, second.naming),
        (Naming::Index(0), Naming::Index(4))
    );
    let error = uars.for_thread().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    for fact in ["pages 3", "max 2"] {
        assert!(error.to_string().contains(fact), "{error}");
    }
    let page = first.page.memory.address();
    drop(first);
    let again = uars.for_thread().unwrap();
    assert_eq!(again.page.memory.address(), page);
    assert_eq!(again.naming, Naming::Index(0));
    assert_eq!(script.take_calls(), [""; 0], "the kernel hands it out once");
}

#[test]
fn without_doorbells_beyond_the_fixed_ones_threads_have_no_pages() {
    for (most, per_page, register_size, has) in [
        (0, 1, REGISTER, false),
        (1, 1, REGISTER, false),
        (2, 1, REGISTER, true),
        (2, 0, REGISTER, true),
        (3, 2, REGISTER, false),
        (64, 1, 0, false),
    ] {
        let (script, uars) = extra(most, per_page, register_size);
        let kind = uars.for_thread().err().map(|error| error.kind());
        assert_eq!(kind, (!has).then_some(ErrorKind::Unsupported), "{most}");
        assert_eq!(script.take_calls().len(), usize::from(has));
    }
}

#[test]
fn a_fixed_page_is_mapped_once_at_its_place() {
    let (script, uars) = fixed();
    let [third, again] = [2, 2].map(|page| uars.fixed(page).unwrap().memory);
    assert!(Arc::ptr_eq(&third, &again));
    let first = uars.fixed(0).unwrap();
    assert!(first.object.is_none());
    let size = page_size();
    assert_eq!(
        script.take_calls(),
        [
            format!("map {:#x} {size}", 2 * size),
            format!("map 0x0 {size}")
        ]
    );
}
