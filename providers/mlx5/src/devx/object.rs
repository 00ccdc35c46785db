//! Objects created by firmware commands.

use std::sync::Arc;

use uverbs_core::cmd::{new_object_handle, new_object_slot};
use uverbs_core::kind::{Counts, Kind, Legacy};
use uverbs_core::sys::Attr;
use uverbs_core::{DestroyError, Object, Op, Result};
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT,
    MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE, MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE,
    MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT,
    MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN,
    MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT, MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE,
    MLX5_IB_METHOD_DEVX_OBJ_CREATE, MLX5_IB_METHOD_DEVX_OBJ_DESTROY,
    MLX5_IB_METHOD_DEVX_OBJ_MODIFY, MLX5_IB_METHOD_DEVX_OBJ_QUERY, MLX5_IB_OBJECT_DEVX_OBJ,
};

use super::reply::exchange;
use super::{Devx, check_context};
use crate::prm::{Field, Mailbox, field, opcode, word};

/// `mlx5dv_devx_obj`—an object that a firmware command created.
///
/// Cheap to clone. The kernel destroys it when the last clone, and every object created with it as
/// a parent, is gone. A failed destroy is counted in
/// [`UverbsFile::leaked`](uverbs_core::UverbsFile::leaked).
#[doc(alias = "mlx5dv_devx_obj")]
#[derive(Clone, Debug)]
pub struct DevxObject {
    object: Arc<Object>,
    id: u32,
    reply: Arc<Mailbox>,
}

/// Something that a creating command refers to: it is destroyed after the object created.
#[derive(Clone, Debug)]
pub struct Parent(pub(crate) Arc<Object>);

static KIND: Kind = Kind {
    name: "DevxObject",
    op: Op::DevxDestroy,
    object: MLX5_IB_OBJECT_DEVX_OBJ,
    method: MLX5_IB_METHOD_DEVX_OBJ_DESTROY,
    attr: MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE,
    counts: Counts::None,
    legacy: Legacy::None,
};

/// Object numbers have 24 bits, those of general objects 32.
const ID24: Field = field(0x08, 23, 0);
const ID32: Field = word(0x08);
const ELEMENT_ID: Field = word(0x10);
const PSV_INDEX: Field = field(0x10, 23, 0);

impl Devx {
    /// `mlx5dv_devx_obj_create`—has the firmware create an object. `parents` are the objects that
    /// the command refers to; they live at least as long.
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// The errno for the firmware's status, with status and syndrome. EINVAL without them: the
    /// kernel does not know the opcode as one that creates an object.
    ///
    /// # Safety
    /// 1. Of this process's memory, the object makes the device use only memory that stays
    ///    allocated, and is not accessed through references, until the object's destruction was
    ///    confirmed; until the process ends, if this fails with
    ///    [an outcome that is unknown](uverbs_core::Error::outcome_is_unknown).
    #[doc(alias = "mlx5dv_devx_obj_create")]
    #[expect(unsafe_code, reason = "passes an obligation on")]
    pub unsafe fn create(
        &self,
        command: &Mailbox,
        reply_len: usize,
        parents: impl IntoIterator<Item = Parent>,
    ) -> Result<DevxObject> {
        let parents = parents.into_iter().map(|Parent(object)| object);
        self.create_harmless(command, reply_len, parents)
    }

    /// The same, with a reply that the caller has even if the firmware refuses, and no parents:
    /// what the command refers to is for the caller to keep.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    ///
    /// # Safety
    /// As that of [`create`](Self::create).
    #[expect(unsafe_code, reason = "passes an obligation on")]
    pub unsafe fn create_into(&self, command: &Mailbox, reply: &mut Mailbox) -> Result<DevxObject> {
        self.create_replying(command, reply, [])
    }

    /// Creates an object that uses no memory.
    pub(crate) fn create_harmless(
        &self,
        command: &Mailbox,
        reply_len: usize,
        parents: impl IntoIterator<Item = Arc<Object>>,
    ) -> Result<DevxObject> {
        let mut reply = Mailbox::new(reply_len);
        self.create_replying(command, &mut reply, parents)
    }

    fn create_replying(
        &self,
        command: &Mailbox,
        reply: &mut Mailbox,
        parents: impl IntoIterator<Item = Arc<Object>>,
    ) -> Result<DevxObject> {
        let op = Op::DevxCreate;
        let handle = new_object_slot();
        let create = || {
            exchange(
                &self.file,
                op,
                MLX5_IB_OBJECT_DEVX_OBJ,
                MLX5_IB_METHOD_DEVX_OBJ_CREATE,
                (command, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN),
                (reply, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT),
                &[Attr::new_object(
                    MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE,
                    &handle,
                )],
            )?;
            new_object_handle(op, &handle)
        };
        let file = &self.file;
        let (object, _) = Object::create(file, &KIND, parents, (), create, |handle| *handle)?;
        Ok(DevxObject {
            object: Arc::new(object),
            id: reply.get(id_field(command.opcode())),
            reply: Arc::new(reply.clone()),
        })
    }

    /// `mlx5dv_devx_qp_query` and similar—queries the firmware about `object`: a DEVX object, or a
    /// queue of the verbs whose number the command contains.
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// As [`command`](Self::command). EINVAL without a status also if command and object do not
    /// belong together.
    #[doc(alias = "mlx5dv_devx_qp_query")]
    #[doc(alias = "mlx5dv_devx_cq_query")]
    #[doc(alias = "mlx5dv_devx_srq_query")]
    #[doc(alias = "mlx5dv_devx_wq_query")]
    #[doc(alias = "mlx5dv_devx_ind_tbl_query")]
    #[doc(hidden)] // Users have no such handle: the facade calls it.
    pub fn query_object(
        &self,
        object: &Object,
        command: &Mailbox,
        reply_len: usize,
    ) -> Result<Mailbox> {
        let mut reply = Mailbox::new(reply_len);
        self.query_object_into(object, command, &mut reply)?;
        Ok(reply)
    }

    /// The same, with a reply that the caller has even if the firmware refuses.
    ///
    /// # Errors
    /// As [`query_object`](Self::query_object).
    #[doc(hidden)] // As above.
    pub fn query_object_into(
        &self,
        object: &Object,
        command: &Mailbox,
        reply: &mut Mailbox,
    ) -> Result<()> {
        self.own(Op::DevxQuery, object)?;
        exchange(
            &self.file,
            Op::DevxQuery,
            MLX5_IB_OBJECT_DEVX_OBJ,
            MLX5_IB_METHOD_DEVX_OBJ_QUERY,
            (command, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN),
            (reply, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT),
            &[Attr::object(
                MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE,
                object.handle(),
            )],
        )
    }

    /// `mlx5dv_devx_qp_modify` and similar—has the firmware change `object`: a DEVX object, or a
    /// queue of the verbs whose number the command contains.
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// As [`query_object`](Self::query_object).
    ///
    /// # Safety
    /// 1. As that of [`create`](Self::create), for the memory that the object uses after the
    ///    change.
    #[doc(alias = "mlx5dv_devx_qp_modify")]
    #[doc(alias = "mlx5dv_devx_cq_modify")]
    #[doc(alias = "mlx5dv_devx_srq_modify")]
    #[doc(alias = "mlx5dv_devx_wq_modify")]
    #[doc(alias = "mlx5dv_devx_ind_tbl_modify")]
    #[expect(unsafe_code, reason = "passes an obligation on")]
    #[doc(hidden)] // Users have no such handle: the facade calls it.
    pub unsafe fn modify_object(
        &self,
        object: &Object,
        command: &Mailbox,
        reply_len: usize,
    ) -> Result<Mailbox> {
        self.modify_harmless(object, command, reply_len)
    }

    /// The same, with a reply that the caller has even if the firmware refuses.
    ///
    /// # Errors
    /// As [`modify_object`](Self::modify_object).
    ///
    /// # Safety
    /// As that of [`modify_object`](Self::modify_object).
    #[expect(unsafe_code, reason = "passes an obligation on")]
    #[doc(hidden)] // As above.
    pub unsafe fn modify_object_into(
        &self,
        object: &Object,
        command: &Mailbox,
        reply: &mut Mailbox,
    ) -> Result<()> {
        self.modify_replying(object, command, reply)
    }

    fn own(&self, op: Op, object: &Object) -> Result<()> {
        check_context(op, object, &self.file)
    }

    /// Changes nothing about the memory that an object uses.
    pub(crate) fn modify_harmless(
        &self,
        object: &Object,
        command: &Mailbox,
        reply_len: usize,
    ) -> Result<Mailbox> {
        let mut reply = Mailbox::new(reply_len);
        self.modify_replying(object, command, &mut reply)?;
        Ok(reply)
    }

    fn modify_replying(
        &self,
        object: &Object,
        command: &Mailbox,
        reply: &mut Mailbox,
    ) -> Result<()> {
        self.own(Op::DevxModify, object)?;
        exchange(
            &self.file,
            Op::DevxModify,
            MLX5_IB_OBJECT_DEVX_OBJ,
            MLX5_IB_METHOD_DEVX_OBJ_MODIFY,
            (command, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN),
            (reply, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT),
            &[Attr::object(
                MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE,
                object.handle(),
            )],
        )
    }
}

/// The field of a create command's reply that contains the number of the new object.
const fn id_field(created_by: u16) -> Field {
    match created_by {
        opcode::CREATE_GENERAL_OBJECT => ID32,
        opcode::CREATE_SCHEDULING_ELEMENT => ELEMENT_ID,
        opcode::CREATE_PSV => PSV_INDEX,
        _ => ID24,
    }
}

impl DevxObject {
    /// `mlx5dv_devx_obj_import`—the object of the context that has this handle, whoever created it,
    /// and the device's number `id`. Dropping it destroys nothing, and a destroy is refused.
    ///
    /// The kernel is not asked: commands about an object that is not there fail (ENOENT).
    #[doc(alias = "mlx5dv_devx_obj_import")]
    #[doc(hidden)] // Users have no such handle: the library for C programs calls it.
    pub fn import(file: &Arc<uverbs_core::UverbsFile>, handle: u32, id: u32) -> Self {
        Self {
            object: Arc::new(Object::borrowed(file, &KIND, handle)),
            id,
            reply: Arc::new(Mailbox::new(0)),
        }
    }

    /// The device's number of the object, for commands.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The reply of the command that created it.
    pub fn reply(&self) -> &Mailbox {
        &self.reply
    }

    /// The kernel's handle of the object in this context.
    pub fn handle(&self) -> u32 {
        self.object.handle()
    }

    pub(crate) fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// This object as the parent of another one.
    pub fn parent(&self) -> Parent {
        Parent(Arc::clone(&self.object))
    }

    /// `mlx5dv_devx_obj_query`—queries the firmware about the object.
    ///
    /// # Errors
    /// As [`Devx::command`]. EINVAL without a status also if command and object do not belong
    /// together.
    #[doc(alias = "mlx5dv_devx_obj_query")]
    pub fn query(&self, command: &Mailbox, reply_len: usize) -> Result<Mailbox> {
        Devx::new(self.object.file()).query_object(&self.object, command, reply_len)
    }

    /// The same, with a reply that the caller has even if the firmware refuses.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    pub fn query_into(&self, command: &Mailbox, reply: &mut Mailbox) -> Result<()> {
        Devx::new(self.object.file()).query_object_into(&self.object, command, reply)
    }

    /// The same as [`modify`](Self::modify), with a reply that the caller has even if the firmware
    /// refuses.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    ///
    /// # Safety
    /// As that of [`modify`](Self::modify).
    #[expect(unsafe_code, reason = "passes an obligation on")]
    pub unsafe fn modify_into(&self, command: &Mailbox, reply: &mut Mailbox) -> Result<()> {
        Devx::new(self.object.file()).modify_replying(&self.object, command, reply)
    }

    /// `mlx5dv_devx_obj_modify`—has the firmware change the object.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    ///
    /// # Safety
    /// 1. As that of [`Devx::create`], for the memory that the object uses after the change.
    #[doc(alias = "mlx5dv_devx_obj_modify")]
    #[expect(unsafe_code, reason = "passes an obligation on")]
    pub unsafe fn modify(&self, command: &Mailbox, reply_len: usize) -> Result<Mailbox> {
        self.modify_harmless(command, reply_len)
    }

    pub(crate) fn modify_harmless(&self, command: &Mailbox, reply_len: usize) -> Result<Mailbox> {
        Devx::new(self.object.file()).modify_harmless(&self.object, command, reply_len)
    }

    /// `mlx5dv_devx_obj_destroy`—destroys the object.
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// [`Busy`](uverbs_core::ErrorKind::Busy) while clones or users of it exist; otherwise the
    /// errno for the firmware's status. The object is returned, unless it is unknown whether it is
    /// gone.
    #[doc(alias = "mlx5dv_devx_obj_destroy")]
    pub fn destroy(mut self) -> Result<(), DestroyError<Self>> {
        match Object::sole(&mut self.object).and_then(Object::try_destroy) {
            Ok(_) => Ok(()),
            Err(error) => {
                let error = error.fact("id", self.id);
                Err(DestroyError::new(error, self))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::fs::File;
    use std::os::fd::AsFd as _;

    use uverbs_core::{Errno, ErrorKind, UverbsFile};

    use super::*;
    use crate::devx::EventType;
    use crate::tests::scripted::Scripted;

    /// Each context numbers its handles from the start.
    #[test]
    fn objects_of_another_context_are_not_named() {
        let ((_, file), (kernel, other)) = (Scripted::new(), Scripted::new());
        let command = Mailbox::command(opcode::CREATE_GENERAL_OBJECT, 0, 16);
        let object = Devx::new(&file).create_harmless(&command, 16, []);
        let object = object.unwrap();
        let foreign = Devx::new(&other);
        let (events, replies) = (foreign.event_channel(false), foreign.query_replies());
        let (events, replies) = (events.unwrap(), replies.unwrap());
        kernel.take_calls();
        let file = File::open("/dev/null").unwrap();
        let kinds = [EventType::Completion];
        for refused in [
            foreign
                .query_object(object.object(), &command, 16)
                .map(drop),
            foreign
                .modify_harmless(object.object(), &command, 16)
                .map(drop),
            events.subscribe(Some(&object), &kinds, 1),
            events.subscribe_eventfd(Some(&object), &kinds, file.as_fd()),
            object.query_async(&replies, &command, 16, 1),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            assert!(error.to_string().contains("another context"), "{error}");
        }
        assert_eq!(kernel.take_calls(), [""; 0]);
    }

    #[test]
    fn an_object_that_may_be_gone_is_not_given_back() {
        let create = |file: &Arc<UverbsFile>| {
            let command = Mailbox::command(opcode::CREATE_GENERAL_OBJECT, 0, 16);
            let object = Devx::new(file).create_harmless(&command, 16, []);
            object.unwrap()
        };
        let (kernel, file) = Scripted::new();
        let destroy = format!("+{}/+{}", MLX5_IB_OBJECT_DEVX_OBJ - 0x1000, 1);
        kernel.refuse(&destroy, Errno::BUSY);
        let refused = create(&file).destroy().unwrap_err();
        assert_eq!(refused.error.kind(), ErrorKind::Busy, "{refused}");
        kernel.accept();
        refused.handle.unwrap().destroy().unwrap();
        assert_eq!(file.leaked(), 0);
        kernel.refuse(&destroy, Errno::TIMEDOUT);
        let refused = create(&file).destroy().unwrap_err();
        assert!(refused.error.outcome_is_unknown(), "{refused}");
        assert!(refused.handle.is_none());
        assert_eq!(file.leaked(), 1);
    }
}
