//! Fields of catalog records: number, length, content, in ascending order of their numbers.
//!
//! Threads: plain values. Bytes: docs/format.md, "Catalog records".

use crate::bounds;
use std::collections::BTreeMap;

use super::*;

/// Writes fields in ascending order.
pub(super) struct Fields {
    pub out: Vec<u8>,
}

impl Fields {
    pub fn bytes(&mut self, field: u64, content: &[u8]) {
        put_varint(&mut self.out, field);
        put_bytes(&mut self.out, content);
    }

    pub fn number(&mut self, field: u64, value: u64) {
        let mut content = Vec::with_capacity(10);
        put_varint(&mut content, value);
        self.bytes(field, &content);
    }

    pub fn layout(&mut self, field: u64, layout: Option<&Layout>) -> Result<()> {
        if let Some(layout) = layout {
            layout.validate()?;
            let mut content = Vec::new();
            layout.encode(&mut content);
            self.bytes(field, &content);
        }
        Ok(())
    }

    pub fn operators(&mut self, field: u64, operators: &BTreeMap<u8, String>) {
        let mut content = Vec::new();
        for (&operator, name) in operators {
            content.push(operator);
            put_bytes(&mut content, name.as_bytes());
        }
        self.bytes(field, &content);
    }

    pub fn carry(&mut self, carried: &Carried) {
        self.out.extend_from_slice(&carried.0);
    }
}

/// Number and content of a field, and the bytes after it.
type Field<'a> = (u64, &'a [u8], &'a [u8]);

/// Reads fields in ascending order.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(value: &'a [u8]) -> Result<Self, DecodeError> {
        match value.split_first() {
            Some(_) if value.len() > RECORD_BYTES_MAX => Err(malformed("it is too long")),
            Some((&VERSION, rest)) => Ok(Self { rest }),
            Some((version, _)) => {
                Err(DecodeError::TooNew { what: format!("catalog record version {version}") })
            }
            None => Err(malformed("it is empty")),
        }
    }

    /// The next field, if there is one.
    fn peek(&self) -> Result<Option<Field<'a>>, DecodeError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let cut = || malformed("a field is cut off");
        let (field, taken) = leb128(self.rest).ok_or_else(cut)?;
        let rest = self.rest.get(taken..).ok_or_else(cut)?;
        let (length, taken) = leb128(rest).ok_or_else(cut)?;
        let rest = rest.get(taken..).ok_or_else(cut)?;
        let length = usize::try_from(length).map_err(|_| cut())?;
        let (content, rest) = rest.split_at_checked(length).ok_or_else(cut)?;
        Ok(Some((field, content, rest)))
    }

    pub fn has(&self, field: u64) -> bool {
        matches!(self.peek(), Ok(Some((next, ..))) if next == field)
    }

    pub fn bytes(&mut self, field: u64) -> Result<&'a [u8], DecodeError> {
        match self.peek()? {
            Some((next, content, rest)) if next == field => {
                self.rest = rest;
                Ok(content)
            }
            _ => Err(malformed(&format!("field {field} is missing"))),
        }
    }

    pub fn number(&mut self, field: u64) -> Result<u64, DecodeError> {
        let content = self.bytes(field)?;
        match leb128(content) {
            Some((value, taken)) if taken == content.len() => Ok(value),
            _ => Err(malformed(&format!("field {field} is not a number"))),
        }
    }

    pub fn number32(&mut self, field: u64) -> Result<u32, DecodeError> {
        self.number(field)?
            .try_into()
            .map_err(|_| malformed(&format!("the number in field {field} is too large")))
    }

    pub fn number8(&mut self, field: u64) -> Result<u8, DecodeError> {
        self.number(field)?
            .try_into()
            .map_err(|_| malformed(&format!("the number in field {field} is too large")))
    }

    pub fn name(&mut self, field: u64) -> Result<String, DecodeError> {
        let name = std::str::from_utf8(self.bytes(field)?)
            .map_err(|_| malformed("its name is not UTF-8"))?;
        match name_flaw(name) {
            None => Ok(name.to_owned()),
            Some(why) => Err(malformed(&format!("name: {why}"))),
        }
    }

    pub fn layout(&mut self, field: u64) -> Result<Option<Layout>, DecodeError> {
        match self.has(field) {
            true => Layout::decode(self.bytes(field)?).map(Some),
            false => Ok(None),
        }
    }

    pub fn history(&mut self, field: u64) -> Result<History, DecodeError> {
        if !self.has(field) {
            return Ok(History::default());
        }
        match History::decode(self.bytes(field)?)? {
            history if history.is_empty() => Err(malformed("a history without a change")),
            history => Ok(history),
        }
    }

    pub fn operators(&mut self, field: u64) -> Result<BTreeMap<u8, String>, DecodeError> {
        let mut operators = BTreeMap::new();
        if !self.has(field) {
            return Ok(operators);
        }
        let bad = || {
            malformed(
                "its merge operators are not an ascending list of numbers, 64 or above, with names",
            )
        };
        let mut content = self.bytes(field)?;
        while !content.is_empty() || operators.is_empty() {
            let (&operator, rest) = content.split_first().ok_or_else(bad)?;
            let (length, taken) = leb128(rest).ok_or_else(bad)?;
            let length = usize::try_from(length).map_err(|_| bad())?;
            let rest = rest.get(taken..).ok_or_else(bad)?;
            let (name, rest) = rest.split_at_checked(length).ok_or_else(bad)?;
            let name = std::str::from_utf8(name).map_err(|_| bad())?;
            let follows = operators.keys().next_back().is_none_or(|&last| last < operator);
            let is_name =
                name_flaw(name).is_none() && name.len() <= bounds::OPERATOR_NAME_BYTES.len();
            if operator < OPERATOR_USER_MIN || !follows || !is_name {
                return Err(bad());
            }
            operators.insert(operator, name.to_owned());
            content = rest;
        }
        Ok(operators)
    }

    /// Takes the remaining fields. Each must be one that an older version may keep without reading
    /// it.
    pub fn carried(&mut self) -> Result<Carried, DecodeError> {
        let carried = self.rest;
        let mut last = CARRIED_FROM - 1;
        while let Some((field, _, rest)) = self.peek()? {
            if field < CARRIED_FROM {
                return Err(DecodeError::TooNew { what: format!("catalog record field {field}") });
            }
            if field <= last {
                return Err(malformed("its fields are out of order"));
            }
            last = field;
            self.rest = rest;
        }
        Ok(Carried(carried.to_vec()))
    }
}
