//! Pseudo-terminals for interactive commands.

use guest_init::WindowSize;
use nix::pty::{OpenptyResult, Winsize, openpty};
use std::os::fd::AsFd;

/// Opens a pair of the given size.
pub(crate) fn open(size: WindowSize) -> nix::Result<OpenptyResult> {
    openpty(Some(&kernel_size(size)), None)
}

/// Sets a terminal's size; the kernel notifies the processes that run in it.
pub(crate) fn resize(terminal: impl AsFd, size: WindowSize) -> rustix::io::Result<()> {
    let size = kernel_size(size);
    rustix::termios::tcsetwinsize(
        terminal,
        rustix::termios::Winsize {
            ws_row: size.ws_row,
            ws_col: size.ws_col,
            ws_xpixel: 0,
            ws_ypixel: 0,
        },
    )
}

fn kernel_size(size: WindowSize) -> Winsize {
    Winsize {
        ws_row: size.rows,
        ws_col: size.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}
