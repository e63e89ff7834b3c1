//! Writes JSON to the image's output, without a heap.

use core::fmt::{self, Write};

use crate::number::Digits;

/// Writes JSON piece by piece, and adds the commas.
#[derive(Debug)]
pub struct Json<'a, W> {
    to: &'a mut W,
    /// Whether the next value follows another value in the innermost array or object.
    follows: bool,
}

impl<'a, W: Write> Json<'a, W> {
    /// Makes a writer to `to`.
    pub fn new(to: &'a mut W) -> Self {
        Self { to, follows: false }
    }

    fn comma(&mut self) -> fmt::Result {
        if self.follows {
            self.to.write_char(',')?;
        }
        self.follows = true;
        Ok(())
    }

    /// Begins an object or array: `{` or `[`.
    pub fn open(&mut self, bracket: char) -> fmt::Result {
        self.comma()?;
        self.follows = false;
        self.to.write_char(bracket)
    }

    /// Ends an object or array: `}` or `]`.
    pub fn close(&mut self, bracket: char) -> fmt::Result {
        self.follows = true;
        self.to.write_char(bracket)
    }

    /// Writes the name of the next value.
    pub fn name(&mut self, name: &str) -> fmt::Result {
        self.text(name)?;
        self.follows = false;
        self.to.write_char(':')
    }

    /// Writes a string. Characters other than printable ASCII become `?`, because the report goes over a serial line.
    pub fn text(&mut self, text: &str) -> fmt::Result {
        self.comma()?;
        self.to.write_char('"')?;
        for c in text.chars() {
            match c {
                '"' | '\\' => {
                    self.to.write_char('\\')?;
                    self.to.write_char(c)?;
                }
                ' '..='~' => self.to.write_char(c)?,
                _ => self.to.write_char('?')?,
            }
        }
        self.to.write_char('"')
    }

    /// Writes a number.
    pub fn number(&mut self, number: u64) -> fmt::Result {
        self.comma()?;
        self.to.write_str(Digits::decimal(number).as_str())
    }

    /// Writes a string, or `null`.
    pub fn text_or_null(&mut self, text: Option<&str>) -> fmt::Result {
        match text {
            Some(text) => self.text(text),
            None => self.null(),
        }
    }

    /// Writes a number, or `null`.
    pub fn number_or_null(&mut self, number: Option<u64>) -> fmt::Result {
        match number {
            Some(number) => self.number(number),
            None => self.null(),
        }
    }

    fn null(&mut self) -> fmt::Result {
        self.comma()?;
        self.to.write_str("null")
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::String;

    use proptest::prelude::*;

    use super::Json;

    #[test]
    fn commas_stand_between_values_only() {
        let mut text = String::new();
        let mut json = Json::new(&mut text);
        json.open('{').unwrap();
        json.name("a").unwrap();
        json.open('[').unwrap();
        json.number(1).unwrap();
        json.number(2).unwrap();
        json.close(']').unwrap();
        json.name("b").unwrap();
        json.open('[').unwrap();
        json.close(']').unwrap();
        json.name("c").unwrap();
        json.text_or_null(None).unwrap();
        json.name("d").unwrap();
        json.number_or_null(Some(3)).unwrap();
        json.close('}').unwrap();
        assert_eq!(text, r#"{"a":[1,2],"b":[],"c":null,"d":3}"#);
    }

    proptest! {
        #[test]
        fn any_text_is_json(input in ".*") {
            let mut text = String::new();
            Json::new(&mut text).text(&input).unwrap();
            let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
            prop_assert!(parsed.is_string() && text.is_ascii());
        }
    }
}
