//! A connection manager that notes commands and answers what it is told to.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use zerocopy::FromBytes;

use crate::error::Errno;
use crate::file::CmFile;
use crate::sys::{Call, Kernel, Reply};

/// A command as the kernel gets it.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) number: u32,
    pub(super) request: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// The room for the reply.
    pub(super) room: usize,
}

/// Commands so far, and the answers to the next ones.
#[derive(Debug, Default)]
pub(super) struct Manager {
    sent: Mutex<Vec<Sent>>,
    answers: Mutex<VecDeque<Result<Vec<u8>, Errno>>>,
}

impl Manager {
    /// Answers one command after another; commands beyond them succeed, and have no reply.
    pub(super) fn new(
        answers: impl IntoIterator<Item = Result<Vec<u8>, Errno>>,
    ) -> (Arc<Self>, CmFile) {
        let manager = Arc::new(Self {
            sent: Mutex::default(),
            answers: Mutex::new(answers.into_iter().collect()),
        });
        let null = File::open("/dev/null").unwrap().into();
        let file = file_over(Arc::clone(&manager), null);
        (manager, file)
    }

    /// The commands since the last look.
    pub(super) fn sent(&self) -> Vec<Sent> {
        std::mem::take(&mut *self.sent.lock().unwrap())
    }

    /// The one command since the last look: its number and its struct.
    #[track_caller]
    pub(super) fn one<T: FromBytes>(&self) -> (u32, T) {
        let sent = self.sent();
        assert_eq!(sent.len(), 1, "one system call");
        (
            sent[0].number,
            T::read_from_bytes(&sent[0].request).unwrap(),
        )
    }
}

/// A file whose commands `manager` takes, and whose events are those of `fd`.
pub(super) fn file_over(manager: Arc<Manager>, fd: OwnedFd) -> CmFile {
    // SAFETY: (1) the script takes calls on any descriptor, and carries none of them out.
    #[expect(unsafe_code, reason = "the file is not a connection manager")]
    unsafe {
        CmFile::new(manager, fd)
    }
}

#[expect(unsafe_code, reason = "returns no descriptors")]
// SAFETY: it neither creates descriptors nor maps memory.
unsafe impl Kernel for Manager {
    unsafe fn call(&self, _: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        let Call::Cm(command) = call else {
            return Err(Errno::NOSYS);
        };
        self.sent.lock().unwrap().push(Sent {
            number: command.command,
            request: command.request.to_vec(),
            value: command.value.to_vec(),
            room: command.reply.len(),
        });
        let answer = self.answers.lock().unwrap().pop_front();
        for (cell, byte) in command
            .reply
            .iter()
            .zip(answer.transpose()?.unwrap_or_default())
        {
            cell.set(byte);
        }
        Ok(Reply::Done)
    }
}
