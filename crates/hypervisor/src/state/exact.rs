//! Reads KVM's structures with exactly their length: kvm-bindings by itself fills what is missing with zeros. No thread
//! owns anything here.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;

use kvm_bindings::{kvm_irqchip, kvm_lapic_state, kvm_mp_state, kvm_pit_state2};
use serde::de::value::BytesDeserializer;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// A structure that is written as its bytes.
struct Exact<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Exact<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let bytes = from.deserialize_bytes(Bytes::<T>(PhantomData))?;
        T::deserialize(BytesDeserializer::new(&bytes)).map(Self)
    }
}

/// Takes the bytes of a structure.
struct Bytes<T>(PhantomData<T>);

impl<T> Bytes<T> {
    fn checked<E: Error>(&self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
        if bytes.len() == size_of::<T>() {
            return Ok(bytes);
        }
        Err(E::invalid_length(bytes.len(), self))
    }
}

impl<'de, T> Visitor<'de> for Bytes<T> {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = type_name::<T>().rsplit("::").next().unwrap_or_default();
        write!(f, "the {} bytes of {name}", size_of::<T>())
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        self.checked(bytes.to_vec())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<u8>, A::Error> {
        let mut bytes = Vec::with_capacity(size_of::<T>());
        while bytes.len() <= size_of::<T>() {
            let Some(byte) = from.next_element()? else {
                break;
            };
            bytes.push(byte);
        }
        self.checked(bytes)
    }
}

pub fn one<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    Exact::deserialize(from).map(|Exact(value)| value)
}

pub fn list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    let list = Vec::<Exact<T>>::deserialize(from)?;
    Ok(list.into_iter().map(|Exact(value)| value).collect())
}

/// Reads the state of a local APIC.
pub fn lapic<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<(kvm_lapic_state, kvm_mp_state)>, D::Error> {
    let lapic = Option::<(Exact<_>, Exact<_>)>::deserialize(from)?;
    Ok(lapic.map(|(Exact(lapic), Exact(state))| (lapic, state)))
}

/// Reads the states of the controllers and of the interval timer.
pub fn controllers<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<([kvm_irqchip; 3], kvm_pit_state2)>, D::Error> {
    let controllers = Option::<([Exact<_>; 3], Exact<_>)>::deserialize(from)?;
    Ok(controllers.map(|(chips, Exact(pit))| (chips.map(|Exact(chip)| chip), pit)))
}
