# The ring of this program: adds 1 to the doorbell word.
.macro prepare
.endm
.macro ring
    lock inc qword ptr [rbx + {WORD}]
.endm
