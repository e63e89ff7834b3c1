// The ring of this program: adds 1 to the doorbell word. The store releases, so that a reader that sees the word sees STAMP.
.macro prepare
    add x25, x19, #{WORD}
.endm
.macro ring
5:
    ldxr x26, [x25]
    add x26, x26, #1
    stlxr w27, x26, [x25]
    cbnz w27, 5b
.endm
