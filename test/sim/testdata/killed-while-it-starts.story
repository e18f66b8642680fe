# The controller is killed in its first milliseconds, and leaves nothing behind.
profile chaos
seed 1

fault +0s kill
fault +1s start
fault +1ms kill
fault +1s start
fault +5ms kill
fault +1s start
fault +20ms kill
fault +1s start
fault +50ms kill
fault +1s start
fault +100ms kill
fault +1s start
fault +200ms kill
fault +1s start
fault +400ms kill
fault +1s start
