# The ring of this program: writes VALUE, four bytes, to port ADDRESS.
.macro prepare
.endm
.macro ring
    mov edx, [rbx + {ADDRESS}]
    mov eax, [rbx + {VALUE}]
    out dx, eax
.endm
