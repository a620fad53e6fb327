//! Reads constants out of LLVM: the bytes of an initializer, and the addresses that stand in it.

use crate::llvm::{Value, kind, opcode};

/// An initializer as bytes; an address in it is zeros, and listed apart.
#[derive(Debug, Default)]
pub(super) struct ConstBytes {
    pub(super) bytes: Vec<u8>,
    /// Offset of each address, what it points to, and how far into it.
    pub(super) addresses: Vec<(usize, Value, u64)>,
}

impl ConstBytes {
    /// Reads the initializer of a global; nothing when it has none or one that is not plain data.
    pub(super) fn of_global(global: Value) -> Option<Self> {
        let mut all = Self::default();
        all.append(global.as_global()?.initializer()?)?;
        Some(all)
    }

    fn append(&mut self, value: Value) -> Option<()> {
        let ty = value.ty();
        match ty.kind() {
            kind::INTEGER => {
                let len = ty.int_bits().div_ceil(8) as usize;
                let number = if value.is_undef() { 0 } else { value.as_int()? };
                self.bytes.extend((0..len).map(|i| if i < 8 { (number >> (8 * i)) as u8 } else { 0 }));
            }
            kind::POINTER => {
                if !value.is_null() && !value.is_undef() {
                    match address(value) {
                        Some((target, offset)) => self.addresses.push((self.bytes.len(), target, offset)),
                        None => {
                            let number = integer_pointer(value)?;
                            self.bytes.extend(number.to_le_bytes());
                            return Some(());
                        }
                    }
                }
                self.bytes.extend([0; 8]);
            }
            kind::ARRAY if ty.element().is_int(8) => {
                let len = usize::try_from(ty.array_len()).ok()?;
                if value.is_null() || value.is_undef() {
                    self.bytes.extend(std::iter::repeat_n(0, len));
                } else {
                    self.bytes.extend(value.as_bytes());
                }
            }
            kind::ARRAY => {
                for i in 0..u32::try_from(ty.array_len()).ok()? {
                    self.append(value.aggregate_element(i)?)?;
                }
            }
            kind::STRUCT => {
                // rustc writes its constants as packed structs, so fields follow each other without gaps.
                for i in 0..u32::try_from(ty.fields().len()).ok()? {
                    self.append(value.aggregate_element(i)?)?;
                }
            }
            _ => return None,
        }
        Some(())
    }

    pub(super) fn u32_at(&self, offset: usize) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes.get(offset..offset + 4)?.try_into().ok()?))
    }

    pub(super) fn u64_at(&self, offset: usize) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes.get(offset..offset + 8)?.try_into().ok()?))
    }

    /// What the address at `offset` points to, and how far into it.
    pub(super) fn address_at(&self, offset: usize) -> Option<(Value, u64)> {
        self.addresses.iter().find(|(at, ..)| *at == offset).map(|(_, target, into)| (*target, *into))
    }

    /// A string kept as pointer and length at `offset`.
    pub(super) fn string_at(&self, offset: usize) -> Option<String> {
        let len = usize::try_from(self.u64_at(offset + 8)?).ok()?;
        if len == 0 {
            return Some(String::new());
        }
        let (target, into) = self.address_at(offset)?;
        bytes_at(target, into, len).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Some bytes of a constant global.
pub(super) fn bytes_at(global: Value, offset: u64, len: usize) -> Option<Vec<u8>> {
    let start = usize::try_from(offset).ok()?;
    Some(ConstBytes::of_global(global)?.bytes.get(start..start.checked_add(len)?)?.to_vec())
}

/// The global or function that a constant pointer points to, and how far into it.
pub(super) fn address(value: Value) -> Option<(Value, u64)> {
    if value.as_global().is_some() || value.as_function().is_some() {
        return Some((value, 0));
    }
    match value.constant_opcode()? {
        opcode::GEP if value.operand_count() == 2 && value.gep_element().is_int(8) => {
            let (base, offset) = address(value.operand(0))?;
            Some((base, offset.wrapping_add(value.operand(1).as_int()?)))
        }
        opcode::BITCAST | opcode::ADDRSPACECAST => address(value.operand(0)),
        _ => None,
    }
}

/// The number behind a constant pointer that was made from one.
pub(super) fn integer_pointer(value: Value) -> Option<u64> {
    (value.constant_opcode()? == opcode::INTTOPTR).then(|| value.operand(0).as_int())?
}
