//! Obtains kernel objects, and the opened file behind them, from what firmware commands created.
#![forbid(unsafe_code)]

use std::sync::Arc;

use uverbs::AccessFlags;
use uverbs::mlx5::devx::{Devx, DevxObject};
use uverbs::mlx5::steering::{FlowAction, FlowMatcher, SteeringAnchor};
use uverbs::mlx5::{Pages, Var};
use uverbs_core::{Object, cmd};

/// What any program can do that has an object: destroy another one by its handle.
fn destroy(of: &Object, handle: u32) {
    drop(Object::new(of.file(), &cmd::qp::KIND, handle, []));
}

fn of_made(made: &DevxObject, action: &FlowAction, matcher: &FlowMatcher) {
    let _: fn(&Object, u32) = destroy;
    destroy(made.object(), 1); //~ E0624
    destroy(action.object(), 1); //~ E0624
    destroy(matcher.object(), 1); //~ E0624
    let _ = (made.parent(), action, matcher);
}

fn of_taken(devx: &Devx, anchor: &SteeringAnchor, var: &Var) {
    let pages = Arc::new(Pages::new(4096).unwrap());
    let umem = devx
        .register_pages(&pages, AccessFlags::LOCAL_WRITE)
        .unwrap();
    let uar = devx.uar(false).unwrap();
    let _: fn(&Object, u32) = destroy;
    destroy(&umem.parent().0, 1); //~ E0616
    destroy(&uar.parent().unwrap().0, 1); //~ E0616
    destroy(&anchor.parent().0, 1); //~ E0616
    destroy(&var.parent().0, 1); //~ E0616
}

fn main() {
    let _: fn(&DevxObject, &FlowAction, &FlowMatcher) = of_made;
    let _: fn(&Devx, &SteeringAnchor, &Var) = of_taken;
}
