local shape = {}
function shape.area(width, height) return width * height end
return shape
