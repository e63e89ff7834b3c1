// The ring of this program: stores VALUE, four bytes, to ADDRESS.
.macro prepare
    ldr x25, [x19, #{ADDRESS}]
    ldr w26, [x19, #{VALUE}]
.endm
.macro ring
    str w26, [x25]
.endm
