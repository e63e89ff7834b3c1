use proptest::prelude::*;

use super::*;

/// BTF that a test makes.
#[derive(Default)]
pub(crate) struct Made {
    types: Vec<u8>,
    strings: Vec<u8>,
    count: u32,
    /// How many types and strings the kernel's file has, if this is a module's file.
    before: (u32, u32),
}

impl Made {
    pub(crate) fn kernel() -> Self {
        Self {
            strings: vec![0],
            ..Self::default()
        }
    }

    pub(crate) fn module_of(kernel: &Self) -> Self {
        Self {
            before: (kernel.count, u32::try_from(kernel.strings.len()).unwrap()),
            ..Self::default()
        }
    }

    fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let at = self.before.1 + u32::try_from(self.strings.len()).unwrap();
        self.strings.extend(text.as_bytes());
        self.strings.push(0);
        at
    }

    fn add(&mut self, name: &str, kind: u32, length: usize, refers: u32, rest: &[u32]) -> u32 {
        let name = self.string(name);
        let info = kind << 24 | u32::try_from(length).unwrap();
        for word in [name, info, refers].iter().chain(rest) {
            self.types.extend(word.to_le_bytes());
        }
        self.count += 1;
        self.before.0 + self.count
    }

    pub(crate) fn int(&mut self, size: u32) -> u32 {
        self.add("number", INT, 0, size, &[0])
    }

    pub(crate) fn pointer(&mut self, to: u32) -> u32 {
        self.add("", POINTER, 0, to, &[])
    }

    pub(crate) fn typedef(&mut self, name: &str, of: u32) -> u32 {
        self.add(name, TYPEDEF, 0, of, &[])
    }

    pub(crate) fn array(&mut self, of: u32, count: u32) -> u32 {
        self.add("", ARRAY, 0, 0, &[of, of, count])
    }

    pub(crate) fn composed(&mut self, name: &str, kind: u32, members: &[(&str, u32, u32)]) -> u32 {
        let members: Vec<u32> = members
            .iter()
            .flat_map(|(name, of, offset)| [self.string(name), *of, offset * 8])
            .collect();
        self.add(name, kind, members.len() / 3, 64, &members)
    }

    pub(crate) fn structure(&mut self, name: &str, members: &[(&str, u32, u32)]) -> u32 {
        self.composed(name, STRUCT, members)
    }

    pub(crate) fn function(&mut self, name: &str, parameters: &[&str]) -> u32 {
        let prototype = self.prototype(parameters);
        self.add(name, FUNCTION, 0, prototype, &[])
    }

    pub(crate) fn tracepoint(&mut self, name: &str) -> u32 {
        let prototype = self.prototype(&["", "", ""]);
        let pointer = self.pointer(prototype);
        self.typedef(&format!("btf_trace_{name}"), pointer)
    }

    fn prototype(&mut self, parameters: &[&str]) -> u32 {
        let words: Vec<u32> = parameters
            .iter()
            .flat_map(|name| [self.string(name), 0])
            .collect();
        self.add("", PROTOTYPE, parameters.len(), 0, &words)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let (types, strings) = (self.types.len(), self.strings.len());
        let [types, strings] = [types, strings].map(|length| u32::try_from(length).unwrap());
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, types, types, strings] {
            bytes.extend(u32::to_le_bytes(word));
        }
        [bytes, self.types.clone(), self.strings.clone()].concat()
    }
}

#[test]
fn a_member_is_found_through_anonymous_members_typedefs_and_unions() {
    let mut kernel = Made::kernel();
    let byte = kernel.int(1);
    let half = kernel.int(2);
    let port = kernel.typedef("port_t", half);
    let io = kernel.structure("", &[("direction", byte, 0), ("port", port, 2)]);
    let data = kernel.array(byte, 12);
    let of_exit = kernel.composed("", UNION, &[("io", io, 0), ("data", data, 0)]);
    kernel.structure("run", &[("reason", half, 8), ("", of_exit, 32)]);
    let btf = Btf::parse(&kernel.bytes(), None).unwrap();
    let member = |path| btf.member("run", path).unwrap();
    let at = |offset, size| Member { offset, size };
    assert_eq!(member("reason"), at(8, 2));
    assert_eq!(member("io.port"), at(34, 2));
    assert_eq!(member("data"), at(32, 12));
    let error = btf.member("run", "io.size").unwrap_err().to_string();
    assert_eq!(error, "this kernel has no run.io.size");
}

#[test]
fn a_module_continues_the_numbers_and_the_names_of_the_kernel() {
    let mut kernel = Made::kernel();
    let number = kernel.int(4);
    kernel.function("in_both", &["old"]);
    let mut module = Made::module_of(&kernel);
    module.structure("of_module", &[("first", number, 0), ("second", number, 4)]);
    let id = module.function("in_both", &["vcpu", "this"]);
    let tracepoint = module.tracepoint("kvm_eoi");
    let btf = Btf::parse(&kernel.bytes(), Some(&module.bytes())).unwrap();
    assert_eq!(btf.member("of_module", "second").unwrap().offset, 4);
    let function = btf.function(&["missing", "in_both"]).unwrap();
    assert_eq!((function.id, function.in_module), (id, true));
    assert_eq!(function.parameter(&["this"]).unwrap(), 1);
    assert_eq!(btf.tracepoint("kvm_eoi").unwrap().id, tracepoint);
    let of_kernel = Btf::parse(&kernel.bytes(), None).unwrap();
    let function = of_kernel.function(&["in_both"]).unwrap();
    assert!(!function.in_module && function.parameters == ["old"]);
}

#[test]
fn what_a_kernel_does_not_have_is_named() {
    let mut kernel = Made::kernel();
    kernel.function("kick", &["vcpu"]);
    let btf = Btf::parse(&kernel.bytes(), None).unwrap();
    let errors = [
        btf.function(&["one", "other"]).unwrap_err(),
        btf.tracepoint("kvm_eoi").unwrap_err(),
        btf.function(&["kick"])
            .unwrap()
            .parameter(&["kvm"])
            .unwrap_err(),
    ];
    assert_eq!(
        errors.map(|error| error.to_string()),
        [
            "this kernel has no function one or other",
            "this kernel has no function of the tracepoint kvm_eoi",
            "kick of this kernel has no parameter kvm, but [\"vcpu\"]",
        ]
    );
}

#[test]
fn types_that_refer_to_themselves_are_an_error_and_no_endless_search() {
    let mut kernel = Made::kernel();
    // A typedef of itself, and an anonymous structure that contains itself.
    let typedef = kernel.typedef("own", 1);
    kernel.structure("", &[("", 2, 0)]);
    kernel.structure("outer", &[("member", typedef, 0), ("", 2, 0)]);
    let btf = Btf::parse(&kernel.bytes(), None).unwrap();
    assert!(matches!(
        btf.member("outer", "member"),
        Err(BtfError::Malformed(_))
    ));
    assert!(matches!(
        btf.member("outer", "missing"),
        Err(BtfError::NoMember(_))
    ));
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(changes in prop::collection::vec((0_usize..600, any::<u8>()), 1..8), cut in 0_usize..600) {
        let mut kernel = Made::kernel();
        let number = kernel.int(4);
        let inner = kernel.composed("", UNION, &[("b", number, 0)]);
        kernel.structure("s", &[("a", number, 0), ("", inner, 8)]);
        kernel.function("f", &["p"]);
        kernel.tracepoint("t");
        let mut bytes = kernel.bytes();
        for (at, byte) in changes {
            let length = bytes.len();
            bytes[at % length] = byte;
        }
        bytes.truncate(cut.max(1));
        if let Ok(btf) = Btf::parse(&bytes, None) {
            let _ = btf.member("s", "a");
            let _ = btf.member("s", "b");
            let _ = btf.function(&["f"]);
            let _ = btf.tracepoint("t");
        }
    }
}
