//! `rings`: what the rings carry: every operation, bytes in the request itself, and positions that
//! wrap around.

mod inline;
mod operations;
mod wraps;

use super::check::Check;

pub(super) fn checks() -> Vec<Check> {
    let mut checks = operations::checks();
    checks.extend(inline::checks());
    checks.extend(wraps::checks());
    checks
}
