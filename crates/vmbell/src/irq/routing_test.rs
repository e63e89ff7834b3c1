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
    assert!(Routing::new(&routes).is_ok());
    routes.push(route(0));
    assert!(matches!(
        Routing::new(&routes),
        Err(IrqError::TooManyRoutes { count: 4097 })
    ));
}
