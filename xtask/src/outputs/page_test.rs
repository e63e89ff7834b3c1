use super::*;

const PAGE: &str = "\
    $ vmbell run \\
          image
    $ vmbell compare a   # a comment
    one

      two

    $ vmbell bench
A paragraph.

```console
$ vmbell list
three
```
```console vmbell lab --
$ vmbell probe
four
```
    $ vmbell top
";

#[test]
fn commands_up_to_the_last_output_of_a_block_are_found() {
    let found = transcripts(PAGE);
    let found: Vec<_> = found
        .iter()
        .map(|found| (found.line, found.command.as_str(), found.output.join("|")))
        .collect();
    assert_eq!(
        found,
        [
            (1, "vmbell run \\\nimage", "".to_owned()),
            (3, "vmbell compare a   # a comment", "one||  two".to_owned()),
            (12, "vmbell list", "three".to_owned()),
            (16, "vmbell lab -- vmbell probe", "four".to_owned()),
        ]
    );
}

#[test]
fn the_place_of_an_output_is_its_lines() {
    let found = transcripts(PAGE);
    assert_eq!(&PAGE[found[0].place.clone()], "");
    assert_eq!(&PAGE[found[1].place.clone()], "    one\n\n      two\n");
    assert_eq!(&PAGE[found[2].place.clone()], "three\n");
}
