# The program polls the used ring, so it sets flag 1 of the available ring: it wants no interrupt.
.macro begin
    mov word ptr [rsi + 0x80], 1
.endm
.macro await_answer
6:
    pause
    cmp [rsi + 0x102], r14w
    jne 6b
.endm
.macro handler
.endm
