# The ring of this program: stores VALUE, four bytes, to ADDRESS.
.macro prepare
    mov r15, [rbx + {ADDRESS}]
.endm
.macro ring
    mov eax, [rbx + {VALUE}]
    mov [r15], eax
.endm
