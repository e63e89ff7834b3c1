use super::*;

#[test]
#[cfg_attr(miri, ignore = "4096 routes take minutes")]
fn gsi_out_of_range_is_refused() {
    assert!(Gsi::new(Gsi::LIMIT - 1).is_ok());
    let error = Gsi::new(Gsi::LIMIT).unwrap_err();
    assert_eq!(
        error.to_string(),
        "gsi 4096 is out of range, there are 4096"
    );
    let route = |number| Route {
        gsi: Gsi::new(number).unwrap(),
        target: Target::Msi(Msi::fixed(0, 0x45)),
    };
    let mut routes: Vec<_> = (0..Gsi::LIMIT).map(route).collect();
    assert!(Routing::new(&routes, IrqArch::X86_64).is_ok());
    routes.push(route(0));
    assert!(matches!(
        Routing::new(&routes, IrqArch::X86_64),
        Err(IrqError::TooManyRoutes { count: 4097 })
    ));
}

#[test]
fn pin_that_the_architecture_lacks_is_refused() {
    for (arch, pins) in [(IrqArch::X86_64, 24), (IrqArch::Arm64, 224)] {
        let route = |pin| Route {
            gsi: Gsi::new(1).unwrap(),
            target: Target::Pin(pin),
        };
        assert_eq!(Routing::identity(arch).routes().count(), usize::from(pins));
        assert!(Routing::new(&[route(pins - 1)], arch).is_ok());
        let error = Routing::new(&[route(pins)], arch).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("pin {pins} is out of range, the interrupt controller has {pins}")
        );
    }
}
