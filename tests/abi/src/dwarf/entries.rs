//! Debug information as a flat list of entries with plain attributes.

use std::borrow::Cow;
use std::collections::HashMap;

use anyhow::{Context as _, Result};
use gimli::constants as dw;
use gimli::{AttributeValue, EndianSlice, RunTimeEndian, Unit};
use object::{Object as _, ObjectSection as _};

type Slice<'a> = EndianSlice<'a, RunTimeEndian>;
type Attributes<'e, 'a> = gimli::DebuggingInformationEntry<'e, 'e, Slice<'a>>;

/// One entry, with the attributes that types need.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) tag: gimli::DwTag,
    pub(super) name: Option<String>,
    /// `DW_AT_byte_size`.
    pub(super) size: Option<u64>,
    /// `DW_AT_data_member_location`.
    pub(super) offset: u64,
    /// Number of elements of an array dimension; unknown for a flexible array.
    pub(super) count: Option<u64>,
    /// `DW_AT_const_value`.
    pub(super) value: Option<i64>,
    /// `DW_AT_declaration`.
    pub(super) declaration: bool,
    /// The file that defines it.
    pub(super) file: String,
    pub(super) line: u64,
    /// `DW_AT_type`, for [`Entries::resolve`].
    pub(super) type_ref: Option<usize>,
    children: Vec<usize>,
}

/// All entries of a file.
#[derive(Debug, Default)]
pub(super) struct Entries {
    list: Vec<Entry>,
    by_offset: HashMap<usize, usize>,
    roots: Vec<usize>,
}

impl Entries {
    pub(super) fn parse(object: &[u8]) -> Result<Self> {
        let file = object::File::parse(object).context("the compiler's output")?;
        let endian = if file.is_little_endian() {
            RunTimeEndian::Little
        } else {
            RunTimeEndian::Big
        };
        let load = |id: gimli::SectionId| -> Result<Cow<'_, [u8]>> {
            let section = file.section_by_name(id.name());
            Ok(section.map_or(Ok(Cow::Borrowed(&[][..])), |section| {
                section.uncompressed_data()
            })?)
        };
        let sections = gimli::DwarfSections::load(load)?;
        let dwarf = sections.borrow(|section| EndianSlice::new(section, endian));
        let mut all = Self::default();
        let mut units = dwarf.units();
        while let Some(header) = units.next()? {
            all.add_unit(&dwarf, &dwarf.unit(header)?)?;
        }
        Ok(all)
    }

    /// The top-level entries of the file.
    pub(super) fn roots(&self) -> impl Iterator<Item = &Entry> {
        self.roots.iter().filter_map(|&index| self.list.get(index))
    }

    /// The entries below one.
    pub(super) fn children<'a>(&'a self, entry: &'a Entry) -> impl Iterator<Item = &'a Entry> {
        entry
            .children
            .iter()
            .filter_map(|&index| self.list.get(index))
    }

    /// The type that a reference refers to, without typedefs and qualifiers.
    pub(super) fn resolve(&self, reference: Option<usize>) -> Result<&Entry> {
        let mut reference = reference.context("an entry without a type")?;
        loop {
            let index = self
                .by_offset
                .get(&reference)
                .context("a type that is not there")?;
            let entry = self.list.get(*index).context("a type that is not there")?;
            match (entry.tag, entry.type_ref) {
                (
                    dw::DW_TAG_typedef | dw::DW_TAG_const_type | dw::DW_TAG_volatile_type,
                    Some(next),
                ) => reference = next,
                _ => return Ok(entry),
            }
        }
    }

    fn add_unit<'a>(
        &mut self,
        dwarf: &gimli::Dwarf<Slice<'a>>,
        unit: &Unit<Slice<'a>>,
    ) -> Result<()> {
        let mut cursor = unit.entries();
        // The chain of parents of the next entry, from the unit down.
        let mut parents: Vec<usize> = Vec::new();
        let mut depth = 0;
        while let Some((change, attributes)) = cursor.next_dfs()? {
            depth += change;
            let index = self.list.len();
            self.list.push(entry(dwarf, unit, attributes)?);
            if let Some(offset) = attributes.offset().to_debug_info_offset(&unit.header) {
                self.by_offset.insert(offset.0, index);
            }
            parents.truncate(usize::try_from(depth)?);
            match parents.as_slice() {
                [] => {}
                [_] => self.roots.push(index),
                [.., parent] => {
                    if let Some(parent) = self.list.get_mut(*parent) {
                        parent.children.push(index);
                    }
                }
            }
            parents.push(index);
        }
        Ok(())
    }
}

fn entry<'a>(
    dwarf: &gimli::Dwarf<Slice<'a>>,
    unit: &Unit<Slice<'a>>,
    attributes: &Attributes<'_, 'a>,
) -> Result<Entry> {
    let number = |name| -> Result<Option<u64>> {
        Ok(attributes
            .attr_value(name)?
            .and_then(|value| value.udata_value()))
    };
    let name = match attributes.attr_value(dw::DW_AT_name)? {
        Some(value) => Some(
            dwarf
                .attr_string(unit, value)?
                .to_string_lossy()
                .into_owned(),
        ),
        None => None,
    };
    let count = match number(dw::DW_AT_count)? {
        Some(count) => Some(count),
        None => number(dw::DW_AT_upper_bound)?.map(|bound| bound.wrapping_add(1)),
    };
    let type_ref = match attributes.attr_value(dw::DW_AT_type)? {
        Some(AttributeValue::UnitRef(offset)) => offset
            .to_debug_info_offset(&unit.header)
            .map(|offset| offset.0),
        _ => None,
    };
    Ok(Entry {
        tag: attributes.tag(),
        name,
        size: number(dw::DW_AT_byte_size)?,
        offset: number(dw::DW_AT_data_member_location)?.unwrap_or(0),
        count,
        value: attributes
            .attr_value(dw::DW_AT_const_value)?
            .and_then(constant),
        declaration: attributes.attr_value(dw::DW_AT_declaration)?.is_some(),
        file: match attributes.attr_value(dw::DW_AT_decl_file)? {
            Some(AttributeValue::FileIndex(index)) => file_name(dwarf, unit, index)?,
            _ => String::new(),
        },
        line: number(dw::DW_AT_decl_line)?.unwrap_or(0),
        type_ref,
        children: Vec::new(),
    })
}

/// A constant by its form: compilers encode negative ones, and only those need it, as signed.
fn constant(value: AttributeValue<Slice<'_>>) -> Option<i64> {
    match value {
        AttributeValue::Data1(value) => Some(value.into()),
        AttributeValue::Data2(value) => Some(value.into()),
        AttributeValue::Data4(value) => Some(value.into()),
        AttributeValue::Data8(value) | AttributeValue::Udata(value) => Some(value.cast_signed()),
        AttributeValue::Sdata(value) => Some(value),
        _ => None,
    }
}

fn file_name<'a>(
    dwarf: &gimli::Dwarf<Slice<'a>>,
    unit: &Unit<Slice<'a>>,
    index: u64,
) -> Result<String> {
    let Some(header) = unit
        .line_program
        .as_ref()
        .map(gimli::IncompleteLineProgram::header)
    else {
        return Ok(String::new());
    };
    let Some(file) = header.file(index) else {
        return Ok(String::new());
    };
    let name = dwarf
        .attr_string(unit, file.path_name())?
        .to_string_lossy()
        .into_owned();
    match file.directory(header) {
        Some(folder) => Ok(format!(
            "{}/{name}",
            dwarf.attr_string(unit, folder)?.to_string_lossy()
        )),
        None => Ok(name),
    }
}
