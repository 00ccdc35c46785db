//! `fork(2)` and memory that a device writes to.
//!
//! After a fork, whichever of parent and child writes first to a shared page gets a copy of it. If
//! that is the parent, the device keeps writing to the old page, which the parent no longer sees.
//! Kernels since 5.12 copy pinned pages for the child during the fork, so nothing needs to be done;
//! they report this ([`copy_on_fork`]). On older kernels registered memory must be excluded from
//! children (`MADV_DONTFORK`): a child that accesses it dies of SIGSEGV.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::netlink::{Client, NetlinkTransport};
use super::pages::PageCounts;
use crate::error::{Errno, Error, ErrorKind, Op, Result};
pub use crate::sys::madvise::ForkAdvice;
pub(crate) use crate::sys::madvise::LinuxForkAdvice;

/// Whether the kernel copies on fork: 0 unknown, 1 no, 2 yes.
static COPIES: AtomicU8 = AtomicU8::new(0);

/// `ibv_is_fork_initialized`—whether the kernel copies pinned pages for a child, so that fork is
/// safe without further measures.
///
/// The kernel is queried once per process, in four system calls (netlink `RDMA_NLDEV_CMD_SYS_GET`).
/// A kernel that does not know the query does not copy; one that cannot be queried (no RDMA
/// netlink, a sandbox) is assumed not to.
///
/// # Errors
/// Any other errno of the netlink socket, in particular EMFILE.
#[doc(alias = "ibv_is_fork_initialized")]
pub fn copy_on_fork() -> Result<bool> {
    match COPIES.load(Ordering::Relaxed) {
        0 => {
            let copies = Client::connect()
                .and_then(|mut client| query(&mut client))
                .or_else(|error| {
                    if is_unavailable(&error) {
                        Ok(false)
                    } else {
                        Err(error)
                    }
                })?;
            remember(copies);
            Ok(copies)
        }
        known => Ok(known == 2),
    }
}

/// Whether netlink is unavailable: the kernel has no RDMA netlink, or this process has no access to
/// it (a sandbox).
pub(super) fn is_unavailable(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unsupported | ErrorKind::PermissionDenied
    ) || error.errno() == Some(Errno::AFNOSUPPORT)
}

fn query<T: NetlinkTransport>(client: &mut Client<T>) -> Result<bool> {
    match client.system() {
        Ok(system) => Ok(system.copy_on_fork),
        // Before Linux 5.2.
        Err(error) if error.errno() == Some(Errno::INVAL) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Queries the kernel over a client that is open anyway.
pub(super) fn learn<T: NetlinkTransport>(client: &mut Client<T>) {
    if COPIES.load(Ordering::Relaxed) == 0
        && let Ok(copies) = query(client)
    {
        remember(copies);
    }
}

/// Whether [`copy_on_fork`] needs no query.
pub(super) fn is_known() -> bool {
    COPIES.load(Ordering::Relaxed) != 0
}

/// Stores the answer for [`copy_on_fork`].
pub(super) fn remember(copies: bool) {
    COPIES.store(1 + u8::from(copies), Ordering::Relaxed);
}

/// Excludes registered memory from forked children, if the kernel requires that.
///
/// Registrations are counted per page: a page that several registrations share is given back to
/// children when the last of them is dropped. Clones share their counts, and all guards from
/// [`detect`](Self::detect) and [`forced`](Self::forced) share theirs, because pages belong to the
/// process.
///
/// Default of this library: [`detect`](Self::detect).
#[doc(alias = "ibv_fork_init")]
#[derive(Clone, Debug)]
pub struct ForkGuard {
    pages: Option<Arc<Pages>>,
}

struct Pages {
    advice: Box<dyn ForkAdvice>,
    counts: Mutex<PageCounts>,
    stuck: AtomicU64,
}

static PROCESS: OnceLock<Arc<Pages>> = OnceLock::new();

impl ForkGuard {
    /// A guard that is active if the kernel does not copy on fork, and does nothing otherwise.
    ///
    /// # Errors
    /// As [`copy_on_fork`].
    pub fn detect() -> Result<Self> {
        Ok(if copy_on_fork()? {
            Self::unneeded()
        } else {
            Self::forced()
        })
    }

    /// A guard that does nothing: for programs that never fork.
    pub const fn unneeded() -> Self {
        Self { pages: None }
    }

    /// A guard that is active whatever the kernel reports.
    pub fn forced() -> Self {
        let pages = PROCESS.get_or_init(|| Arc::new(Pages::new(Box::new(LinuxForkAdvice))));
        Self {
            pages: Some(Arc::clone(pages)),
        }
    }

    /// A guard with page counts of its own, over a substitute for `madvise(2)`.
    pub fn over(advice: Box<dyn ForkAdvice>) -> Self {
        Self {
            pages: Some(Arc::new(Pages::new(advice))),
        }
    }

    /// Whether it is active.
    pub const fn is_needed(&self) -> bool {
        self.pages.is_some()
    }

    /// Whether excluding a range from children would exclude nothing else: the guard is inactive,
    /// or the range consists of whole pages.
    pub fn affects_only(&self, address: usize, len: usize) -> bool {
        self.pages.as_ref().is_none_or(|pages| {
            let page = pages.advice.page_size();
            address.is_multiple_of(page) && len.is_multiple_of(page)
        })
    }

    /// Number of page ranges, since the process started, that could not be given back to children.
    /// They stay excluded.
    pub fn stuck(&self) -> u64 {
        self.pages
            .as_ref()
            .map_or(0, |pages| pages.stuck.load(Ordering::Relaxed))
    }

    /// Excludes the pages of a range from children until the registration is dropped. Only whole
    /// pages can be excluded, so other data on the first and last page is excluded, too.
    ///
    /// One `madvise(2)` per run of pages that are not excluded yet; none if the guard is inactive.
    /// The memory must stay mapped while the registration exists: the guard does not notice if
    /// something else is mapped in its place. Pages that other code excluded from children are
    /// given back, too.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the range exceeds the address space, or ends inside a huge
    /// page (EINVAL); [`ErrorKind::OutOfResources`] if part of it is not mapped, or
    /// `vm.max_map_count` is reached (ENOMEM). Nothing is excluded then.
    ///
    /// # Safety
    /// No other code has excluded any of these pages from children and relies on that, since they
    /// are given back. This library's queues are such memory: if it were given back, the parent
    /// could lose its pages to a child.
    #[allow(
        unsafe_code,
        reason = "gives pages back to children that other code may have excluded"
    )]
    pub unsafe fn protect(&self, address: usize, len: usize) -> Result<Registration> {
        let Some(pages) = &self.pages else {
            return Ok(Registration { range: None });
        };
        let (start, end) = pages.span(address, len)?;
        if start == end {
            return Ok(Registration { range: None });
        }
        pages.leave_out(start, end)?;
        Ok(Registration {
            range: Some((Arc::clone(pages), start, end)),
        })
    }
}

impl Pages {
    fn new(advice: Box<dyn ForkAdvice>) -> Self {
        Self {
            advice,
            counts: Mutex::new(PageCounts::default()),
            stuck: AtomicU64::new(0),
        }
    }

    /// The pages of a range, as the address of the first byte and the address past the last.
    fn span(&self, address: usize, len: usize) -> Result<(usize, usize)> {
        if len == 0 {
            return Ok((address, address));
        }
        let page = self.advice.page_size();
        let end = address
            .checked_add(len)
            .and_then(|end| end.checked_next_multiple_of(page));
        match end {
            Some(end) => Ok((address - address % page, end)),
            None => Err(Error::new(Op::ForkSupport, ErrorKind::InvalidInput)
                .fact("address", address)
                .fact("length", len)),
        }
    }

    fn leave_out(&self, start: usize, end: usize) -> Result<()> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = counts.unprotected(start, end);
        for (done, &(from, to)) in fresh.iter().enumerate() {
            if let Err(errno) = self.advice.advise(from, to - from, false) {
                // Part of this run may have been advised already. Undoing it fails at the same
                // place, after that part was undone.
                let _ = self.advice.advise(from, to - from, true);
                for &(from, to) in &fresh[..done] {
                    self.give_back(from, to);
                }
                return Err(failure(errno, from, to));
            }
        }
        counts.add(start, end);
        Ok(())
    }

    fn release(&self, start: usize, end: usize) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for (from, to) in counts.remove(start, end) {
            self.give_back(from, to);
        }
    }

    fn give_back(&self, from: usize, to: usize) {
        match self.advice.advise(from, to - from, true) {
            // Unmapped meanwhile: later mappings there are inherited by default.
            Ok(()) | Err(Errno::NOMEM) => {}
            Err(_) => {
                self.stuck.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn failure(errno: Errno, from: usize, to: usize) -> Error {
    let error = Error::os(Op::ForkSupport, errno)
        .fact("address", format!("{from:#x}"))
        .fact("length", to - from);
    match errno {
        Errno::INVAL => error.hint("memory on huge pages must be registered in whole huge pages, or with a kernel since 5.12"),
        Errno::NOMEM => error.hint("part of the range is not mapped, or vm.max_map_count is reached"),
        _ => error,
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages")
            .field("advice", &self.advice)
            .field("stuck", &self.stuck)
            .finish_non_exhaustive()
    }
}

/// Memory that children do not inherit, until this is dropped.
#[derive(Debug)]
#[must_use = "dropping it gives the memory back to children"]
pub struct Registration {
    range: Option<(Arc<Pages>, usize, usize)>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some((pages, start, end)) = &self.range {
            pages.release(*start, *end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::netlink::tests::script::{Script, answer, attr, error};
    use crate::discover::{Options, via_netlink};
    use uverbs_uapi::rdma_netlink::{
        RDMA_NL_GET_TYPE, RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SYS_GET, RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK,
    };

    fn asked(reply: Vec<u8>) -> Result<bool> {
        query(&mut Script::new([reply]).client())
    }

    fn settings(copies: u8) -> Vec<u8> {
        let copies = attr(RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, &[copies]);
        answer(RDMA_NLDEV_CMD_SYS_GET, false, 1, &[copies])
    }

    #[test]
    fn the_kernel_says_whether_it_copies() {
        assert_eq!(asked(settings(1)).ok(), Some(true));
        assert_eq!(asked(settings(0)).ok(), Some(false));
        assert_eq!(asked(error(1, Errno::INVAL)).ok(), Some(false));
        let refused = asked(error(1, Errno::MFILE)).err();
        assert_eq!(refused.and_then(|error| error.errno()), Some(Errno::MFILE));
    }

    /// The one test that changes what this process knows.
    #[test]
    fn what_the_process_knows_is_not_asked_again() {
        let options = Options {
            learn_fork: true,
            ..Options::default()
        };
        let forget = || COPIES.store(0, Ordering::Relaxed);
        let before = COPIES.load(Ordering::Relaxed);
        for copies in [true, false] {
            forget();
            assert!(!is_known());
            learn(&mut Script::new([settings(copies.into())]).client());
            assert!(is_known());
            assert_eq!(copy_on_fork().ok(), Some(copies));
            assert_eq!(ForkGuard::detect().unwrap().is_needed(), !copies);
            let silent = Script::default();
            learn(&mut silent.client());
            assert!(silent.sent().is_empty());
        }
        forget();
        learn(&mut Script::new([error(1, Errno::MFILE)]).client());
        assert!(!is_known(), "a refusal says nothing");
        // Along with a device, if it is asked for.
        for (learns, known, asks) in [
            (true, false, true),
            (true, true, false),
            (false, false, false),
        ] {
            forget();
            if known {
                remember(true);
            }
            let script = Script::default();
            let options = Options {
                learn_fork: learns,
                ..options.clone()
            };
            let found = via_netlink::find(&mut script.client(), "rxe0", &options);
            assert!(found.is_err(), "nothing answers");
            let system = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SYS_GET);
            let sent = script.sent().concat();
            let asked = sent.windows(2).any(|word| word == system.to_ne_bytes());
            assert_eq!(asked, asks, "{learns} {known}");
        }
        COPIES.store(before, Ordering::Relaxed);
    }

    #[test]
    fn a_guard_that_is_not_needed_affects_nothing() {
        let guard = ForkGuard::unneeded();
        assert!(!guard.is_needed());
        assert_eq!(guard.stuck(), 0);
        assert!(guard.affects_only(1, 1));
        let guard = ForkGuard::over(Box::new(LinuxForkAdvice));
        assert!(guard.is_needed());
        let page = LinuxForkAdvice.page_size();
        for (address, len, only) in [
            (0, page, true),
            (page, 3 * page, true),
            (1, page, false),
            (page, page - 1, false),
            (page, 0, true),
        ] {
            assert_eq!(guard.affects_only(address, len), only, "{len} at {address}");
        }
        assert!(ForkGuard::forced().is_needed());
    }
}
