/* The user's own kernels of read_text.py, run on tensors that a WebNN context hands out. */

/* One picture element, 0..255, blended from its four neighbours; positions outside repeat the edge. */
inline float3 blend(global const uchar *picture, int height, int width, float x, float y)
{
    x = clamp(x - 0.5f, 0.0f, (float)(width - 1));
    y = clamp(y - 0.5f, 0.0f, (float)(height - 1));
    const int left = (int)x, top = (int)y;
    const int right = min(left + 1, width - 1), bottom = min(top + 1, height - 1);
    const float fx = x - left, fy = y - top;
    float3 sum = (float3)(0.0f);
    for (int corner = 0; corner < 4; corner++) {
        const int column = corner & 1 ? right : left, row = corner & 2 ? bottom : top;
        const float weight = (corner & 1 ? fx : 1.0f - fx) * (corner & 2 ? fy : 1.0f - fy);
        global const uchar *p = picture + ((long)row * width + column) * 3;
        sum += weight * (float3)(p[0], p[1], p[2]);
    }
    return sum;
}

/* Cut quadrilaterals out of a picture (height, width, 3: RGB) and straighten each into one network input:
   out is (count, 3, rows, columns), planes blue, green, red, values -1..1, 0 right of the used columns.
   A box is nine floats: four corners (x, y) from top-left clockwise, then how many columns it fills.
   Where the picture is finer than the output, the mean of a grid of positions is taken. */
kernel void cut_out(global const uchar *picture, int height, int width, global const float *boxes,
                    global float *out, int count, int rows, int columns)
{
    const long i = get_global_id(0);
    if (i >= (long)count * rows * columns) return;
    const int column = i % columns, row = i / columns % rows, n = i / columns / rows;
    global const float *box = boxes + n * 9;
    const float2 a = (float2)(box[0], box[1]), b = (float2)(box[2], box[3]);
    const float2 c = (float2)(box[4], box[5]), d = (float2)(box[6], box[7]);
    const float used = box[8];
    global float *pixel = out + (long)n * 3 * rows * columns + row * columns + column;
    const long plane = (long)rows * columns;
    float3 sum = (float3)(0.0f);
    if (column < used) {
        const int across = clamp((int)ceil(distance(a, b) / used), 1, 8);
        const int down = clamp((int)ceil(distance(a, d) / rows), 1, 8);
        for (int s = 0; s < across * down; s++) {
            const float u = (column + (s % across + 0.5f) / across) / used;
            const float v = (row + (s / across + 0.5f) / down) / rows;
            const float2 p = (1 - v) * ((1 - u) * a + u * b) + v * ((1 - u) * d + u * c);
            sum += blend(picture, height, width, p.x, p.y);
        }
        sum = sum / (across * down * 127.5f) - 1.0f;
    }
    pixel[0] = sum.z;
    pixel[plane] = sum.y;
    pixel[2 * plane] = sum.x;
}

/* For each of the rows of `scores`, the column of its largest value, and that value. */
kernel void arg_max(global const float *scores, int rows, int columns, global int *best, global float *value)
{
    const long row = get_global_id(0);
    if (row >= rows) return;
    global const float *x = scores + row * columns;
    int at = 0;
    for (int i = 1; i < columns; i++) at = x[i] > x[at] ? i : at;
    best[row] = at;
    value[row] = x[at];
}
