//! Single elements.

use std::sync::Arc;

use uverbs_core::{DestroyError, Error, Object, Op, Result};

use super::check::Limits;
use crate::devx::{Devx, DevxObject};
use crate::prm::{ElementAttr, ElementKind, GeneralCaps, QosCaps};

const REPLY_LEN: usize = 16;

/// Creates elements of one device's scheduling tree.
///
/// Elements belong to the context that created them and end with it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Scheduler {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    devx: Devx,
    general: GeneralCaps,
    qos: QosCaps,
    limits: Limits,
}

/// `mlx5dv_sched_node`—distributes its rate among the elements below it. Cheap to clone.
///
/// It is destroyed when the last clone, and every element below, is gone.
#[doc(alias = "mlx5dv_sched_node")]
#[derive(Clone, Debug)]
pub struct Node {
    scheduler: Scheduler,
    object: DevxObject,
    root: bool,
}

/// `mlx5dv_sched_leaf`—distributes its rate among the queues attached to it. Cheap to clone.
///
/// It is destroyed when the last clone is gone, and every queue attached to it was destroyed,
/// detached, or attached to another leaf.
#[doc(alias = "mlx5dv_sched_leaf")]
#[derive(Clone, Debug)]
pub struct Leaf {
    scheduler: Scheduler,
    object: DevxObject,
}

impl Scheduler {
    /// Queries the device's capabilities.
    ///
    /// Two system calls, which wait for the firmware.
    ///
    /// # Errors
    /// Those of the queries. For a device without scheduling, returns a scheduler that refuses
    /// everything.
    pub fn new(devx: Devx) -> Result<Self> {
        let general = devx.general_caps()?;
        let qos = devx.qos_caps(&general)?;
        Ok(Self::with_caps(devx, general, qos))
    }

    pub(crate) fn with_caps(devx: Devx, general: GeneralCaps, qos: QosCaps) -> Self {
        let limits = Limits::of(&general, &qos);
        Self {
            inner: Arc::new(Inner {
                devx,
                general,
                qos,
                limits,
            }),
        }
    }

    /// The device's capabilities for quality of service.
    pub fn caps(&self) -> &QosCaps {
        &self.inner.qos
    }

    pub(super) fn general(&self) -> &GeneralCaps {
        &self.inner.general
    }

    /// The limits that they imply for a tree.
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    pub(super) fn devx(&self) -> &Devx {
        &self.inner.devx
    }

    /// `mlx5dv_sched_node_create`—creates a root, which has neither share nor cap.
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// [`Unsupported`](uverbs_core::ErrorKind::Unsupported): the device has no such scheduling.
    /// Otherwise the errno for the firmware's status.
    #[doc(alias = "mlx5dv_sched_node_create")]
    pub fn create_root(&self) -> Result<Node> {
        self.limits().check_nodes()?;
        let object = self.create(ElementKind::Tsar, None, &ElementAttr::new())?;
        Ok(Node {
            scheduler: self.clone(),
            object,
            root: true,
        })
    }

    fn create(
        &self,
        kind: ElementKind,
        parent: Option<&DevxObject>,
        attr: &ElementAttr,
    ) -> Result<DevxObject> {
        self.limits().check_attr(Op::CreateSchedElement, attr)?;
        let parent_id = parent.map_or(0, DevxObject::id);
        let command = attr.create(kind, parent_id);
        let parents = parent.map(|parent| Arc::clone(parent.object()));
        self.devx()
            .create_harmless(&command, REPLY_LEN, parents)
            .map_err(|error| {
                describe(error.with_op(Op::CreateSchedElement), attr).fact("parent", parent_id)
            })
    }

    fn modify(&self, object: &DevxObject, kind: ElementKind, attr: &ElementAttr) -> Result<()> {
        self.limits().check_attr(Op::ModifySchedElement, attr)?;
        object
            .modify_harmless(&attr.modify(kind, object.id()), REPLY_LEN)
            .map(|_| ())
            .map_err(|error| {
                describe(error.with_op(Op::ModifySchedElement), attr).fact("id", object.id())
            })
    }
}

fn describe(mut error: Error, attr: &ElementAttr) -> Error {
    if let Some(share) = attr.share {
        error = error.fact("share", share);
    }
    if let Some(cap) = attr.max_mbps {
        error = error.fact("max_mbps", cap);
    }
    error
}

impl Node {
    /// The device's number of the node.
    pub fn id(&self) -> u32 {
        self.object.id()
    }

    /// Whether it has no parent.
    pub fn is_root(&self) -> bool {
        self.root
    }

    /// `mlx5dv_sched_node_create`—creates a node below this one.
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// [`Unsupported`](uverbs_core::ErrorKind::Unsupported): the device has no shares or no caps.
    /// [`LimitExceeded`](uverbs_core::ErrorKind::LimitExceeded): a share above the device's
    /// maximum. Otherwise the errno for the firmware's status.
    #[doc(alias = "mlx5dv_sched_node_create")]
    pub fn create_node(&self, attr: &ElementAttr) -> Result<Self> {
        self.scheduler.limits().check_nodes()?;
        let object = self
            .scheduler
            .create(ElementKind::Tsar, Some(&self.object), attr)?;
        Ok(Self {
            scheduler: self.scheduler.clone(),
            object,
            root: false,
        })
    }

    /// `mlx5dv_sched_leaf_create`—creates a leaf below this node.
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// As [`create_node`](Self::create_node).
    #[doc(alias = "mlx5dv_sched_leaf_create")]
    pub fn create_leaf(&self, attr: &ElementAttr) -> Result<Leaf> {
        let object = self
            .scheduler
            .create(ElementKind::QueueGroup, Some(&self.object), attr)?;
        Ok(Leaf {
            scheduler: self.scheduler.clone(),
            object,
        })
    }

    /// `mlx5dv_sched_node_modify`—changes the fields present in `attr`. A root has nothing to
    /// change.
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// [`InvalidInput`](uverbs_core::ErrorKind::InvalidInput): share or cap for a root. Otherwise
    /// as [`create_node`](Self::create_node); the node is then unchanged.
    #[doc(alias = "mlx5dv_sched_node_modify")]
    pub fn modify(&self, attr: &ElementAttr) -> Result<()> {
        if self.root && *attr != ElementAttr::new() {
            return Err(Error::invalid(
                Op::ModifySchedElement,
                "share or cap of a root",
            ));
        }
        self.scheduler.modify(&self.object, ElementKind::Tsar, attr)
    }

    /// `mlx5dv_sched_node_destroy`—destroys the node. Dropping the last clone does the same.
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// [`Busy`](uverbs_core::ErrorKind::Busy) while there are elements below it, or clones; the
    /// node is returned.
    #[doc(alias = "mlx5dv_sched_node_destroy")]
    pub fn destroy(self) -> Result<(), DestroyError<Self>> {
        let Self {
            scheduler,
            object,
            root,
        } = self;
        object.destroy().map_err(|mut refused| {
            refused.error = refused.error.with_op(Op::DestroySchedElement);
            refused.map(|object| Self {
                scheduler,
                object,
                root,
            })
        })
    }
}

impl Leaf {
    /// The device's number of the leaf.
    pub fn id(&self) -> u32 {
        self.object.id()
    }

    /// The kernel object, which attached queues use.
    pub(crate) fn object(&self) -> &Arc<Object> {
        self.object.object()
    }

    /// Whether queues are attached to it, or clones of it exist.
    pub fn is_used(&self) -> bool {
        Arc::strong_count(self.object()) > 1
    }

    /// `mlx5dv_sched_leaf_modify`—changes the fields present in `attr`; queues stay attached.
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// As [`Node::create_leaf`]; the leaf is then unchanged.
    #[doc(alias = "mlx5dv_sched_leaf_modify")]
    pub fn modify(&self, attr: &ElementAttr) -> Result<()> {
        self.scheduler
            .modify(&self.object, ElementKind::QueueGroup, attr)
    }

    /// `mlx5dv_sched_leaf_destroy`—destroys the leaf. Dropping the last clone does the same.
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// [`Busy`](uverbs_core::ErrorKind::Busy) while queues are attached to it, or clones exist; the
    /// leaf is returned.
    #[doc(alias = "mlx5dv_sched_leaf_destroy")]
    pub fn destroy(self) -> Result<(), DestroyError<Self>> {
        let Self { scheduler, object } = self;
        object.destroy().map_err(|mut refused| {
            refused.error = refused.error.with_op(Op::DestroySchedElement);
            refused.map(|object| Self { scheduler, object })
        })
    }
}
