//! The commands: one file per family, and the dispatcher.

mod cq;
mod data_key;
mod dct;
mod devx;
mod eq;
mod flow;
mod hca;
mod memic;
mod mkey;
mod paging;
pub(crate) use memic::LOG_MAX_ALIGNMENT;
pub(crate) use mkey::indirect;
mod qos;
mod qp;
mod qp_fields;
mod raw;
mod register;
mod resource;
mod srq;
mod steering_memory;
mod vport;

use crate::budget;
use crate::device::Device;
use crate::layout::command::{self, op};
use crate::layout::{Field, Wide, part, put};
use crate::status::{Outcome, Refusal, Rule, require};

/// One command being run: the device, the input and the reply under construction.
pub(crate) struct Command<'a> {
    pub(crate) device: &'a mut Device,
    pub(crate) input: &'a [u8],
    pub(crate) output: &'a mut Vec<u8>,
    pub(crate) uid: u16,
    pub(crate) modifier: u16,
}

impl Command<'_> {
    /// An input field.
    pub(crate) fn get(&self, field: Field) -> u32 {
        field.get(self.input)
    }

    /// A 64-bit input quantity.
    pub(crate) fn get64(&self, field: Wide) -> u64 {
        field.get(self.input)
    }

    /// The object number at its usual offset.
    pub(crate) fn number(&self) -> u32 {
        self.get(command::NUMBER)
    }

    /// A context of `length` bytes, zero-filled where the input ends early.
    pub(crate) fn context(&self, at: usize, length: usize) -> Vec<u8> {
        part(self.input, at, length)
    }

    /// Sets an output field.
    pub(crate) fn set(&mut self, field: Field, value: u32) {
        field.set(self.output, value);
    }

    /// Replies with a new object's number.
    pub(crate) fn reply(&mut self, number: u32) {
        self.set(command::NUMBER, number);
    }

    /// Which of the requested connection establishment options are agreed to.
    pub(crate) fn agree(&self, requested: u32) -> Outcome<u32> {
        let config = &self.device.config;
        require(requested == 0 || config.ece != 0, Rule::Reserved)?;
        Ok(config.agree(requested))
    }

    /// Replies with a context.
    pub(crate) fn reply_context(&mut self, at: usize, context: &[u8]) {
        put(self.output, at, context);
    }
}

/// Runs one command and returns its reply, `length` bytes long.
pub(crate) fn execute(device: &mut Device, input: &[u8], length: usize) -> Vec<u8> {
    let opcode = command::OPCODE.get(input) as u16;
    let mut output = vec![0; length];
    let refused = if let Some(refusal) = device.faults.refusal(opcode) {
        Err(refusal)
    } else {
        let mut command = Command {
            uid: effective(command::UID.get(input) as u16),
            modifier: command::OP_MOD.get(input) as u16,
            device,
            input,
            output: &mut output,
        };
        known_context(&command)
            .and_then(|()| within_budget(&command))
            .and_then(|()| dispatch(&mut command, opcode))
    };
    if let Err(Refusal { status, syndrome }) = refused {
        if syndrome == Rule::ForeignObject as u32 {
            device.report("object of another user context", op::name(opcode));
        }
        output.fill(0);
        command::STATUS.set(&mut output, status as u32);
        command::SYNDROME.set(&mut output, syndrome);
    }
    device.trace.command(device.index, opcode, input, &output);
    output
}

/// The kernel marks objects that all contexts share, such as completion event queues, by a uid of
/// all ones.
const SHARED_UID: u16 = 0xffff;

fn effective(uid: u16) -> u16 {
    if uid == SHARED_UID { 0 } else { uid }
}

/// A user context must exist for commands to run in its name.
fn known_context(command: &Command<'_>) -> Outcome {
    if command.uid != 0
        && command
            .device
            .contexts
            .get(u32::from(command.uid))
            .is_none()
    {
        return Err(Rule::NoSuchObject.refuse());
    }
    Ok(())
}

/// Stops a guest that keeps creating large objects before it exhausts the host's memory.
fn within_budget(command: &Command<'_>) -> Outcome {
    let large = command.input.len() > budget::LARGE;
    require(
        !large || command.device.list_entries() < budget::MAX_ENTRIES,
        Rule::TableFull,
    )
}

fn dispatch(command: &mut Command<'_>, opcode: u16) -> Outcome {
    match opcode {
        op::ENABLE_HCA => hca::enable(command),
        op::DISABLE_HCA => hca::disable(command),
        // Nothing to do, or nothing to return but zeros.
        op::INIT_HCA
        | op::SET_ISSI
        | op::SET_DRIVER_VERSION
        | op::NOP
        | op::MANAGE_PAGES
        | op::MODIFY_VPORT_STATE
        | op::QUERY_VNIC_ENV
        | op::QUERY_VPORT_COUNTER
        | op::QUERY_Q_COUNTER
        // No bond.
        | op::QUERY_LAG
        | op::SET_L2_TABLE_ENTRY
        | op::DELETE_L2_TABLE_ENTRY
        | op::SET_WOL_ROL => Ok(()),
        op::TEARDOWN_HCA => hca::teardown(command),
        op::QUERY_ISSI => hca::query_issi(command),
        op::QUERY_PAGES => hca::query_pages(command),
        op::QUERY_HCA_CAP => hca::query_cap(command),
        op::SET_HCA_CAP => hca::set_cap(command),
        op::QUERY_ADAPTER => hca::query_adapter(command),
        op::ACCESS_REG => register::access(command),
        op::QUERY_HCA_VPORT_CONTEXT => vport::query_context(command),
        op::MODIFY_HCA_VPORT_CONTEXT => vport::modify_context(command),
        op::QUERY_HCA_VPORT_GID => vport::query_gid(command),
        op::QUERY_HCA_VPORT_PKEY => vport::query_pkey(command),
        op::QUERY_NIC_VPORT_CONTEXT => vport::query_nic(command),
        op::MODIFY_NIC_VPORT_CONTEXT => vport::modify_nic(command),
        op::QUERY_VPORT_STATE => vport::query_state(command),
        op::SET_ROCE_ADDRESS => vport::set_roce_address(command),
        op::QUERY_ROCE_ADDRESS => vport::query_roce_address(command),
        op::MAD_IFC => vport::management(command),
        op::CREATE_EQ => eq::create(command),
        op::DESTROY_EQ => eq::destroy(command),
        op::QUERY_EQ => eq::query(command),
        op::CREATE_CQ => cq::create(command),
        op::DESTROY_CQ => cq::destroy(command),
        op::QUERY_CQ => cq::query(command),
        op::MODIFY_CQ => cq::modify(command),
        op::ALLOC_MEMIC => memic::allocate(command),
        op::DEALLOC_MEMIC => memic::release(command),
        op::MODIFY_MEMIC => memic::modify(command),
        op::QUERY_SPECIAL_CONTEXTS => mkey::query_special(command),
        op::CREATE_MKEY => mkey::create(command),
        op::QUERY_MKEY => mkey::query(command),
        op::DESTROY_MKEY => mkey::destroy(command),
        op::PAGE_FAULT_RESUME => paging::resume(command),
        op::ALLOC_PD..=op::DEALLOC_UAR
        | op::ALLOC_XRCD
        | op::DEALLOC_XRCD
        | op::ALLOC_TRANSPORT_DOMAIN
        | op::DEALLOC_TRANSPORT_DOMAIN
        | op::CREATE_PSV
        | op::ALLOC_Q_COUNTER
        | op::DEALLOC_Q_COUNTER
        | op::DESTROY_PSV
        | op::ATTACH_TO_MCG
        | op::DETACH_FROM_MCG => resource::run(command, opcode),
        op::SET_FLOW_TABLE_ROOT..=op::MODIFY_FLOW_TABLE => flow::run(command, opcode),
        op::CREATE_QP => qp::create(command),
        op::DESTROY_QP => qp::destroy(command),
        op::QUERY_QP => qp::query(command),
        op::RST2INIT_QP..=op::TO_ERR_QP | op::TO_RST_QP | op::SQD_RTS_QP | op::INIT2INIT_QP => {
            qp::modify(command, opcode)
        }
        op::CREATE_SRQ
        | op::DESTROY_SRQ
        | op::QUERY_SRQ
        | op::ARM_RQ
        | op::CREATE_XRC_SRQ
        | op::DESTROY_XRC_SRQ
        | op::QUERY_XRC_SRQ
        | op::ARM_XRC_SRQ
        | op::CREATE_RMP
        | op::MODIFY_RMP
        | op::DESTROY_RMP
        | op::QUERY_RMP => srq::run(command, opcode),
        op::CREATE_DCT => dct::create(command),
        op::DESTROY_DCT => dct::destroy(command),
        op::DRAIN_DCT => dct::drain(command),
        op::QUERY_DCT => dct::query(command),
        op::CREATE_TIR..=op::QUERY_RQ | op::CREATE_TIS..=op::QUERY_RQT => raw::run(command, opcode),
        op::SET_PP_RATE_LIMIT => qos::set_rate(command),
        op::QUERY_RATE_LIMIT => qos::query_rate(command),
        op::CREATE_SCHEDULING_ELEMENT => qos::create_element(command),
        op::MODIFY_SCHEDULING_ELEMENT => qos::modify_element(command),
        op::QUERY_SCHEDULING_ELEMENT => qos::query_element(command),
        op::DESTROY_SCHEDULING_ELEMENT => qos::destroy_element(command),
        op::CREATE_GENERAL_OBJECT
        | op::MODIFY_GENERAL_OBJECT
        | op::QUERY_GENERAL_OBJECT
        | op::DESTROY_GENERAL_OBJECT => devx::general_object(command, opcode),
        op::CREATE_UCTX => devx::create_context(command),
        op::DESTROY_UCTX => devx::destroy_context(command),
        op::CREATE_UMEM => devx::create_umem(command),
        op::DESTROY_UMEM => devx::destroy_umem(command),
        _ => Err(Rule::UnknownOpcode.refuse()),
    }
}
