//! What the places of a scenario are called, and how their values read in a trace.

/// What the places of a scenario are called.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// Ranges of the shared memory.
    pub(crate) ranges: Vec<Named>,
    /// The words of bells, in their order.
    pub(crate) words: Vec<WordNames>,
}

/// A range of the shared memory.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) name: String,
    pub(crate) meaning: Meaning,
}

/// How a value reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Number,
    /// The flags of a descriptor.
    DescriptorFlags,
    /// The position in a packed ring at which a side wants to be notified, with its wrap counter.
    OffWrap,
    /// The flags of an event suppression of a packed ring.
    EventFlags,
}

/// The part of an access that has a name.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    /// Where the field begins in the value of the access, and how many bytes it has.
    from: usize,
    len: usize,
    meaning: Meaning,
}

/// What the bits of a bell's word are called.
#[derive(Clone, Debug)]
pub(crate) struct WordNames {
    pub(crate) name: String,
    pub(crate) bits: Vec<String>,
    /// Whether each bit is a signal, and a wait takes all of them.
    pub(crate) is_sleeper: bool,
}

impl WordNames {
    /// The names of the bits that are set in `bits`. A bit without a name is shown by its number.
    pub(crate) fn list(&self, bits: u64) -> Vec<String> {
        let set = (0..64).filter(|bit| bits >> bit & 1 != 0);
        set.map(|bit| match self.bits.get(bit) {
            Some(known) => known.clone(),
            None => format!("{} bit {bit}", self.name),
        })
        .collect()
    }
}

impl Names {
    /// The range that contains a byte.
    fn range(&self, offset: usize) -> Option<&Named> {
        self.ranges
            .iter()
            .find(|range| (range.at..range.at + range.len).contains(&offset))
    }

    /// The name of a byte of the shared memory.
    pub(crate) fn place(&self, offset: usize) -> String {
        match self.range(offset) {
            None => format!("byte {offset}"),
            Some(range) if range.at == offset => range.name.clone(),
            Some(range) => format!("{}+{}", range.name, offset - range.at),
        }
    }

    /// The parts of an access to the shared memory, each with its name.
    pub(crate) fn fields(&self, offset: usize, size: usize) -> Vec<Field> {
        let end = offset + size;
        let mut fields = Vec::new();
        let mut at = offset;
        while at < end {
            let range = self.range(at);
            let next = match range {
                Some(range) => range.at + range.len,
                None => self
                    .ranges
                    .iter()
                    .map(|range| range.at)
                    .filter(|&start| start > at)
                    .min()
                    .unwrap_or(end),
            };
            let next = next.min(end);
            let whole = range.filter(|range| range.at == at && range.len == next - at);
            fields.push(Field {
                name: self.place(at),
                from: at - offset,
                len: next - at,
                meaning: whole.map_or(Meaning::Number, |range| range.meaning),
            });
            at = next;
        }
        fields
    }
}

impl Field {
    /// Formats this part of `value`, the value of the access.
    pub(crate) fn show(&self, value: u64) -> String {
        let mut bytes = [0; 8];
        bytes[..self.len].copy_from_slice(&value.to_le_bytes()[self.from..self.from + self.len]);
        let value = u64::from_le_bytes(bytes);
        match self.meaning {
            Meaning::Number => value.to_string(),
            Meaning::DescriptorFlags => flags(value),
            Meaning::OffWrap => format!("slot {} wrap {}", value & 0x7FFF, value >> 15),
            Meaning::EventFlags => match value {
                0 => "ENABLE".to_string(),
                1 => "DISABLE".to_string(),
                2 => "DESC".to_string(),
                _ => value.to_string(),
            },
        }
    }
}

/// The flags of a descriptor (virtio 1.3, 2.7.5 and 2.8.1).
fn flags(value: u64) -> String {
    const NAMES: [(u64, &str); 5] = [
        (1, "NEXT"),
        (2, "WRITE"),
        (4, "INDIRECT"),
        (1 << 7, "AVAIL"),
        (1 << 15, "USED"),
    ];
    let mut found: Vec<String> = Vec::new();
    let mut rest = value;
    for (bit, name) in NAMES {
        if value & bit != 0 {
            found.push(name.to_string());
            rest &= !bit;
        }
    }
    if rest != 0 || found.is_empty() {
        found.push(rest.to_string());
    }
    found.join("|")
}
